// The vector tables of dropout.
#pragma once

#include <vector>

#include "assay/kernels/dropout.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const DropoutKernels*> simd_dropout_tables();

}  // namespace assay
