// What block formats do first with the fp32 result of a fused operator.
#pragma once

#include "assay/core/tensor.h"

namespace assay::te {

// x_f32 rounded to nearest even in `dtype` (float32: itself; bfloat16 or
// float16: overflow to infinity, NaN the quiet one). Throws Error{kUsage} for
// other dtypes.
Tensor round_input(const Tensor& x_f32, DType dtype);

}  // namespace assay::te
