// The vector tables of a tensor's own statistics.
#pragma once

#include <vector>

#include "assay/kernels/summary.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const SummaryKernels*> simd_summary_tables();

}  // namespace assay
