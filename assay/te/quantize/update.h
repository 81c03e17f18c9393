// Quantising into a tensor that is there: weights kept across micro-batches.
#pragma once

#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// destination = quantizer.quantize(x), unless `noop_flag` (null, or one
// float32) holds a value other than 0: then nothing changes and x is not read,
// so no amax is left behind either (NVTE's noop tensor). Throws Error{kUsage}
// where x has not the destination's shape, or for a flag that is no such
// tensor.
void update_quantized(Quantizer& quantizer, const Tensor& x,
                      QuantizedTensor& destination,
                      const Tensor* noop_flag = nullptr);

}  // namespace assay::te
