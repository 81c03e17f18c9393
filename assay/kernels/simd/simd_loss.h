// The vector kernels of the loss family.
#pragma once

#include <vector>

#include "assay/kernels/loss.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const LossKernels*> simd_loss_tables();

}  // namespace assay
