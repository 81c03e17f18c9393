// How parameters come to be: initialised whole, cut for a rank, marked.
#pragma once

#include <cstdint>

#include "assay/te/modules/parameter.h"
#include "assay/te/modules/random.h"

namespace assay::te {

// A plain parameter of these values.
Parameter make_parameter(Tensor value);

// Zeros, then `init` (may be null) with the next seed. Initialised as on the
// CPU: the same values on every device.
Tensor initialised(DType dtype, const Shape& shape, Device device,
                   const InitMethod& init);

// [begin, begin + count) of the first dimension of a contiguous tensor: a view.
Tensor row_view(const Tensor& whole, std::int64_t begin, std::int64_t count);

// This rank's rows (dim 0) or columns (dim 1) of a whole matrix or vector, as
// a tensor of its own where there is more than one rank. Rows are `blocks`
// equal blocks, each cut by itself: of [gate; linear] in two blocks every rank
// gets [its part of gate; its part of linear]. Sizes divide.
Tensor cut(const Tensor& whole, int dim, int ranks, int rank, int blocks = 1);

}  // namespace assay::te
