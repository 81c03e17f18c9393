// The vector kernels of the optim family.
#pragma once

#include <vector>

#include "assay/kernels/optim.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const OptimKernels*> simd_optim_tables();

}  // namespace assay
