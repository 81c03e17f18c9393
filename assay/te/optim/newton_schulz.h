// Newton-Schulz iteration towards the nearest orthogonal matrix (the update of
// Muon).
//
// Source: NVTE newton_schulz and its coefficient sets, which are those of
// NVIDIA Emerging-Optimizers: X <- a X + (b A + c A^2) X with A = X X^T. The
// input is not normalised here: its singular values must already be at most
// about 1, as upstream demands.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::te {

using NewtonSchulzCoefficients = std::array<double, 3>;  // a, b, c

// One triple a step. "simple" and "aol" and "quintic" start over after their
// last; "polar_express" and "cans" repeat it. Throws Error{kUsage} for another
// name (the message lists them) or a negative number of steps.
std::vector<NewtonSchulzCoefficients> newton_schulz_coefficients(
    std::int64_t steps, std::string_view set = "quintic");

// x [m, n] f32 or bf16, in place (strided too): products and sums in fp32 (fp64
// on the reference device), bf16 rounded once at the end. The Gram matrix is
// formed on the shorter side, which is the same polynomial. Results do not
// depend on the number of threads.
void newton_schulz(Tensor& x,
                   const std::vector<NewtonSchulzCoefficients>& coefficients);

}  // namespace assay::te
