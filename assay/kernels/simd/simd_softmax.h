// The vector tables of softmax.
#pragma once

#include <cstddef>
#include <vector>

#include "assay/kernels/softmax.h"

namespace assay {

// Best first; empty where the machine has none of the compiled sets.
std::vector<const SoftmaxKernels*> simd_softmax_tables();

// `count` floats of this thread, until its next call.
float* softmax_scratch(std::size_t count);

}  // namespace assay
