// The vector tables of the rotary embedding.
#pragma once

#include <vector>

#include "assay/kernels/rope.h"

namespace assay {

// Those this machine has, best first.
std::vector<const RopeKernels*> simd_rope_tables();

}  // namespace assay
