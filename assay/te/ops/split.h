// Cutting a tensor along a dimension and joining the pieces again.
//
// Copies, exact. Any dtype; e2m1 where every piece fills whole bytes.
// Thread-safe. Strided inputs are made contiguous first.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::te {

// Fresh tensors, piece i with `sizes[i]` (>= 0, zero allowed) along `dim`
// (negative counts from the last). Throws Error{kUsage} where the sizes do not
// add up to the dimension or `dim` is none of the tensor's.
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes,
                          int dim);

// The inverse: pieces of one dtype and device, of equal shape but for `dim`.
// At least one piece.
Tensor concatenate(std::span<const Tensor> pieces, int dim);

}  // namespace assay::te
