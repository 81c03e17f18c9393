// The plain loops of the block formats.
#pragma once

#include "assay/kernels/block_quant.h"

namespace assay {

extern const BlockQuantKernels kRefBlockQuant;

}  // namespace assay
