// A tensor's own statistics as a plain loop; what the vector kernels fall back
// to for a run with elements that are not finite.
#pragma once

#include "assay/kernels/summary.h"

namespace assay::ref {

void summarise(DType dtype, const void* x, std::int64_t n, SummarySums& out);

}  // namespace assay::ref
