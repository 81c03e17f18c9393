// The plain loops of the activations.
#pragma once

#include "assay/kernels/activation.h"

namespace assay {

extern const ActivationKernels kRefActivationKernels;

}  // namespace assay
