// The vector casts of the machine the program runs on.
#pragma once

#include <vector>

#include "assay/kernels/cast.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const CastKernels*> simd_cast_tables();

}  // namespace assay
