// The order of block scales in memory: compact, padded for a GEMM, swizzled.
#pragma once

#include "assay/te/quantize/quantized_tensor.h"

namespace assay::te {

// The same codes with the scales of an M x K matrix in `layout`; itself where
// they are already. Every pair of layouts can be converted both ways, padding
// is zero. Throws Error{kUsage} for kSwizzled of a mode without tiles.
QuantizedData with_layout(const QuantizedData& q, const Shape& shape,
                          ScaleLayout layout);

}  // namespace assay::te
