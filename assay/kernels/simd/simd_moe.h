// The vector kernels of the moe family.
#pragma once

#include <vector>

#include "assay/kernels/moe.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const MoeKernels*> simd_moe_tables();

}  // namespace assay
