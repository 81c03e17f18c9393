// The two orders of the rows of a gated linear unit's weight: halves, or blocks
// in turn.
//
// Source: NVTE interleave_glu_tensor / deinterleave_glu_tensor on a weight or
// bias; the columns of an activation are ordered by interleave_glu
// (te/ops/activation.h). Copies, exact, any dtype of whole bytes a block.
// Thread-safe. Strided inputs are made contiguous first.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"

namespace assay::te {

// Along the first dimension, of 2N rows: [gate | linear] to blocks of `size`
// rows, gate, linear, gate, linear ... A weight in this order makes its GEMM
// write the interleaved columns. Throws Error{kUsage} unless 0 < size divides
// N.
Tensor interleave_glu_rows(const Tensor& x, std::int64_t size);
Tensor deinterleave_glu_rows(const Tensor& x, std::int64_t size);

}  // namespace assay::te
