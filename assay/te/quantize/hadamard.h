// The random Hadamard transform of NVFP4: runs of 16 elements, rotated so that
// an outlier is spread over its run.
//
// Source: NVTE hadamard_transform.h and section NVFP4BlockScaling (RHT).
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"

namespace assay::te {

// The fixed signs of NVTE's recipe, [1, 1, 1, -1, 1, -1, -1, -1, -1, -1, -1,
// 1, -1, 1, -1, -1]; bit i set: element i is negated.
inline constexpr std::uint16_t kDefaultSignMask = 0xd7e8;

// diag(signs) * H16 / 4, a 16 x 16 float32 matrix of +-1/4 (exact in
// bfloat16), H16 in Sylvester's order.
Tensor hadamard_matrix(std::uint16_t sign_mask = kDefaultSignMask);

// Each run of 16 along the last dimension of a bfloat16 tensor times
// hadamard_matrix(sign_mask): fp32 sums in butterfly order, rounded to
// bfloat16. Throws Error{kUsage} for another dtype or a last dimension that is
// no multiple of 16.
Tensor hadamard_transform(const Tensor& x,
                          std::uint16_t sign_mask = kDefaultSignMask);

// The same of the transpose of the M x K matrix that x is: K x M, runs down
// the columns of x. M must be a multiple of 16.
Tensor hadamard_transform_transposed(
    const Tensor& x, std::uint16_t sign_mask = kDefaultSignMask);

// The amax of hadamard_transform_transposed(x) without storing that, NaN passed
// over. x: a contiguous bfloat16 matrix whose rows are a multiple of 16.
float hadamard_column_amax(const Tensor& x, std::uint16_t sign_mask);

// The amax of x and that of the transposed transform.
struct HadamardAmax {
  float rows, columns;
};
HadamardAmax hadamard_transform_amax(
    const Tensor& x, std::uint16_t sign_mask = kDefaultSignMask);

}  // namespace assay::te
