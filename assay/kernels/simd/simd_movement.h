// The vector kernels of the movement family.
#pragma once

#include <vector>

#include "assay/kernels/movement.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const MovementKernels*> simd_movement_tables();

}  // namespace assay
