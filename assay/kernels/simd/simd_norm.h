// The vector tables of the norms.
#pragma once

#include <vector>

#include "assay/kernels/norm.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const NormKernels*> simd_norm_tables();

}  // namespace assay
