// The vector tables of random arrays.
#pragma once

#include <vector>

#include "assay/kernels/random_kernels.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const RandomKernels*> simd_random_tables();

}  // namespace assay
