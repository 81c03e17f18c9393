// The plain loops of dropout.
#pragma once

#include "assay/kernels/dropout.h"

namespace assay {

extern const DropoutKernels kRefDropoutKernels;

// The mask of chunk `chunk`: for the ends of vector loops too.
std::uint16_t dropout_mask(const DropoutDraw& draw, std::uint64_t chunk);

}  // namespace assay
