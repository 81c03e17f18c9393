// Many matrix products of one kind: what a mixture of experts multiplies, a
// list of independent products or the row groups of one tensor.
//
// Each product is gemm() of its operands: the same bits. Sizes of groups may
// be 0. All offsets are 64-bit; a total that leaves 63 bits is an Error. The
// functions that return bare tensors drop a pre-activation and refuse
// bias_grad and fp8_output.
#pragma once

#include <span>
#include <vector>

#include "assay/te/ops/gemm.h"

namespace assay::te {

// One product per group (nvte_multi_tensor_gemm). `options` has one entry for
// all groups or one per group; a and b have the same length. Throws
// Error{kUsage} as gemm(), and for lengths that differ.
std::vector<GemmResult> multi_tensor_gemm(std::span<const GemmOperand> a,
                                          std::span<const GemmOperand> b,
                                          GemmLayout layout,
                                          std::span<const GemmOptions> options);

// d[g] = alpha sum + beta d[g], each as gemm_into(): main gradients of several
// weights. Where one throws, the groups before it are done.
std::vector<GemmResult> multi_tensor_gemm_into(
    std::span<Tensor> d, std::span<const GemmOperand> a,
    std::span<const GemmOperand> b, GemmLayout layout,
    std::span<const GemmOptions> options);

// As multi_tensor_gemm() under kTN or kNN with the results in one tensor
// [sum of the groups' rows, N], group after group: what a grouped layer with
// quantised inputs multiplies. One out_dtype for all, beta 0.
Tensor grouped_gemm(std::span<const GemmOperand> a,
                    std::span<const GemmOperand> b, GemmLayout layout,
                    std::span<const GemmOptions> options);

// The row groups of x (rows: the product of its leading dimensions): views,
// no copies. The splits are not negative and sum to the rows.
std::vector<Tensor> split_rows(const Tensor& x,
                               std::span<const std::int64_t> splits);

// The products of a grouped linear layer with x and dy as one tensor each, in
// row groups, and one weight per group.
// y[rows, N]: group g is x_g w_g^T (+ bias_g).
Tensor grouped_gemm_fprop(const Tensor& x, std::span<const std::int64_t> splits,
                          std::span<const GemmOperand> w,
                          std::span<const GemmOptions> options);
// dx[rows, K]: group g is dy_g w_g.
Tensor grouped_gemm_dgrad(const Tensor& dy,
                          std::span<const std::int64_t> splits,
                          std::span<const GemmOperand> w,
                          std::span<const GemmOptions> options);
// dw_g = dy_g^T x_g; zeros for an empty group.
std::vector<Tensor> grouped_gemm_wgrad(const Tensor& dy, const Tensor& x,
                                       std::span<const std::int64_t> splits,
                                       std::span<const GemmOptions> options);

// Where each group starts, in elements, and the total: first_dims.size() + 1
// exclusive prefix sums of first_dims[g] * last_dim
// (nvte_compute_grouped_tensor_offsets).
std::vector<std::int64_t> grouped_tensor_offsets(
    std::span<const std::int64_t> first_dims, std::int64_t last_dim);

// out[r, c] += bias[g, c] (times scale[r] where there is one) for the rows r
// of group g, in place; in fp32, rounded once. out: [rows, N] f32, bf16 or
// f16; bias: [groups, N]; scale: f32 [rows] or null.
void grouped_bias_add(Tensor& out, const Tensor& bias,
                      std::span<const std::int64_t> splits,
                      const Tensor* scale = nullptr);

}  // namespace assay::te
