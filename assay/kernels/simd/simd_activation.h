// The vector tables of the activations.
#pragma once

#include <vector>

#include "assay/kernels/activation.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const ActivationKernels*> simd_activation_tables();

}  // namespace assay
