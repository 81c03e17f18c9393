// The gradient of a bias: column sums of what flows back.
#pragma once

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// out[k] = sum over m of x[m, k] for the M x K matrix that x is (leading
// dimensions by the last one), rounded to `out`; zeros without rows. x is
// float32, bfloat16 or float16. Sums are fp64 over fixed blocks of rows, added
// in order (kF32); the other precisions are plain loops ("bias_grad" in
// te/precision.h), kWorking rounds to `out`. The same bits for any number of
// threads. Overwrites nothing; thread-safe.
Tensor bias_grad(const Tensor& x, DType out,
                 InternalPrecision precision = InternalPrecision::kF32);

}  // namespace assay::te
