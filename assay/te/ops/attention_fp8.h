// FP8 attention as NVTE's unfused path emulates it: quantise and dequantise
// (QDQ) between the steps, everything else in the dtype of the inputs.
//
// Roles (the order of NVTE's FP8EmulationFunc):
//   forward   q, k, v = QDQ_qkv(q, k, v), one scale for the three
//             x = scale * q k^T + bias -> p = softmax(x) -> dropout
//             s = QDQ_s(p),  out = QDQ_o(s v)
//   backward  g = QDQ_do(d_out),  dv = s^T g,  dp = g v^T (QDQ_s and QDQ_o pass
//             gradients through), dx = QDQ_dp(softmax'(dropout'(dp)))
//             dq, dk, dv = QDQ_dqkv(scale dx k, scale dx^T q, dv), one scale
// x, p, dp, dx and the products are rounded to the dtype of the inputs; sums
// are fp64 plain loops over whole matrices of queries x keys. For emulation,
// not for speed.
#pragma once

#include <functional>

#include "assay/te/ops/attention.h"

namespace assay::te {

// QDQ of one tensor, in its dtype; of three under one scale, in place. Empty
// functions leave the tensors as they are. s and dp see [sequences, heads,
// longest q, longest kv], zero where a pair is excluded.
struct AttentionFp8Roles {
  using One = std::function<Tensor(const Tensor&)>;
  using Three = std::function<void(Tensor&, Tensor&, Tensor&)>;
  Three qkv;
  One s, o;
  One d_out, dp;
  Three d_qkv;
};

struct AttentionFp8Result {
  Tensor out, lse;
  AttentionInputs inputs;  // with q, k, v after QDQ
  Tensor p, s;             // before dropout; after dropout and QDQ
};

AttentionFp8Result attention_fp8_forward(const AttentionInputs& inputs,
                                         const AttentionOptions& options,
                                         const AttentionFp8Roles& roles);

AttentionGradients attention_fp8_backward(const Tensor& d_out,
                                          const AttentionFp8Result& forward,
                                          const AttentionOptions& options,
                                          const AttentionFp8Roles& roles);

}  // namespace assay::te
