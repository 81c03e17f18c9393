// Elements of a GEMM operand as numbers, with their block scale: exact, and not
// fast. For the plain kernels and the edges of the packing.
#pragma once

#include "assay/kernels/gemm.h"

namespace assay {

// out[j] = the value of (outer, k + j), j in [0, count), in fp64. Exact.
void gemm_values(const GemmView& view, std::int64_t outer, std::int64_t k,
                 std::int64_t count, double* out);

}  // namespace assay
