// The vector kernels of the convert family.
#pragma once

#include <vector>

#include "assay/kernels/convert.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const ConvertKernels*> simd_convert_tables();

}  // namespace assay
