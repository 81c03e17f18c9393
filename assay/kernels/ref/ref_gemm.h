// The plain GEMM: the oracle of the fast ones.
#pragma once

#include "assay/kernels/gemm.h"

namespace assay {

extern const GemmKernels kRefGemm;

}  // namespace assay
