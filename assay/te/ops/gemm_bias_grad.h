// The gradient of a bias beside a weight gradient: the sum of the gradient of
// the output over its rows.
#pragma once

#include <vector>

#include "assay/kernels/gemm.h"

namespace assay::te {

// One sum over k for every outer of a high-precision view. kF32: in fp64,
// which costs no more here; the others as they say.
std::vector<double> gemm_bias_sums(const GemmView& view,
                                   InternalPrecision precision);

}  // namespace assay::te
