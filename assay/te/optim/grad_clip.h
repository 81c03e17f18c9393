// The norm of all gradients together, and clipping to it.
#pragma once

#include <span>

#include "assay/core/tensor.h"

namespace assay::te {

// sqrt of the sum of squares of all elements of all tensors (multi_tensor.h):
// f32, bf16 or f16, mixed. Squares are summed in fp64, so that nothing finite
// overflows; 0 for none. Of a sharded model the caller sums norm^2 over ranks.
double grad_norm(std::span<const Tensor> grads);

// Multiplies in place by fp32(max_norm / (total_norm + 1e-6)) where that is
// below 1, each product rounded to its dtype (torch.nn.utils.clip_grad_norm_,
// Megatron's clip_grad_by_total_norm_fp32). A total_norm that is not finite
// changes nothing (torch makes every gradient NaN or 0): the caller sees it and
// skips the step. Throws Error{kUsage} unless max_norm > 0.
void clip_grads(std::span<Tensor> grads, double max_norm, double total_norm);

// Both; gives the norm before clipping.
double clip_grad_norm(std::span<Tensor> grads, double max_norm);

}  // namespace assay::te
