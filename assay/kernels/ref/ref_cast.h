// The plain casts: see kernels/cast.h.
#pragma once

#include "assay/kernels/cast.h"

namespace assay {

extern const CastKernels kRefCast;

}  // namespace assay
