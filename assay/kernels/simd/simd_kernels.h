// The vector kernels of the machine the program runs on.
#pragma once

#include <vector>

#include "assay/kernels/kernels.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const KernelTable*> simd_tables();

}  // namespace assay
