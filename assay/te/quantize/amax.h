// The largest magnitude of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::te {

// max |x| over a contiguous float32, bfloat16 or float16 tensor; NaN is passed
// over, as fmax does; 0 for an empty tensor. The same for any number of
// threads.
float tensor_amax(const Tensor& x);

// The same of each tensor, strided ones too, in one parallel loop. Throws
// Error{kUsage} for other dtypes.
std::vector<float> tensor_amax(std::span<const Tensor> xs);

// The same of n elements in memory, on one thread.
float amax_of(Device device, DType dtype, const std::byte* x, std::int64_t n);

}  // namespace assay::te
