// The vector tables of residual connections.
#pragma once

#include <vector>

#include "assay/kernels/residual.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const ResidualKernels*> simd_residual_tables();

}  // namespace assay
