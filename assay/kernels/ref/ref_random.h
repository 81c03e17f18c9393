// The plain loops of random arrays.
#pragma once

#include "assay/kernels/random_kernels.h"

namespace assay {

extern const RandomKernels kRefRandomKernels;

}  // namespace assay
