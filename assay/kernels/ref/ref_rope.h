// The plain loops of the rotary embedding.
#pragma once

#include "assay/kernels/rope.h"

namespace assay {

extern const RopeKernels kRefRope;

}  // namespace assay
