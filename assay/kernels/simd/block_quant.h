// The vector kernels of the block formats of the machine the program runs on.
#pragma once

#include <vector>

#include "assay/kernels/block_quant.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const BlockQuantKernels*> simd_block_quant_tables();

}  // namespace assay
