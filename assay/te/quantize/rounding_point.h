// Where a fused operator's fp32 result is rounded before it is quantised.
#pragma once

#include "assay/te/quantize/quantizer.h"
#include "assay/te/quantize/round_input.h"

namespace assay::te {

// True for block formats, for current scaling (whose amax is of the stored
// result: NVTE, Float8CurrentScaling, "activation fused before cast") and for
// tensors that are not quantised; false for delayed scaling.
bool takes_rounded_input(const Quantizer& quantizer);

// The quantised fp32 result of an operator whose input had `dtype`.
inline QuantizedTensor quantize_result(Quantizer& quantizer,
                                       const Tensor& x_f32, DType dtype) {
  if (takes_rounded_input(quantizer))
    return quantizer.quantize(round_input(x_f32, dtype));
  return quantizer.quantize_fused(x_f32, dtype);
}

}  // namespace assay::te
