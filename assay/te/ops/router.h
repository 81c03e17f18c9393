// The router of a mixture of experts: scores, the k best experts of a token,
// their weights, and the loss that balances experts.
//
// Sources: NVTE fused_router (fused_topk_with_score_function,
// fused_compute_score_for_moe_aux_loss, fused_moe_aux_loss) and its tests'
// reference; group-limited routing as in DeepSeek-V2/V3; quantile balancing as
// in Kimi. Logits f32, bf16 or f16, widened; everything in fp32, one rounding
// to the dtype of the result. Sums are those of the operator "router". Results
// do not depend on the number of threads. Thread-safe.
//
// Ties: of equal scores the expert with the lowest index is chosen, -0 equals
// +0, a NaN score comes after -inf. (NVTE's kernel leaves the choice among
// equal scores to its warp shuffles.) A token always goes to `topk` different
// experts.
#pragma once

#include <cstdint>
#include <optional>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"

namespace assay::te {

// NVTE's codes.
enum class ScoreFunction : std::uint8_t {
  kSigmoid = 0,
  kSoftmax = 1,
  kSqrtSoftplus = 2,  // sqrt(log(1 + e^x))
};

struct RouterOptions {
  std::int64_t topk = 1;
  ScoreFunction score_function = ScoreFunction::kSoftmax;
  // Softmax over all experts before the choice; else over the chosen ones.
  bool use_pre_softmax = false;
  // Group-limited: the experts in num_groups equal groups; a group scores the
  // sum of its topk / group_topk best experts; the choice is among the
  // group_topk best groups. 0: no groups.
  std::int64_t num_groups = 0, group_topk = 0;
  double scaling_factor = 1.0;  // of the final weights
  InternalPrecision precision = InternalPrecision::kF32;
};

struct RouterOutput {
  Tensor probs;              // [T, E], dtype of the logits, 0 where not routed
  Tensor routing_map;        // bool [T, E]
  Tensor topk_indices;       // i32 [T, topk], best first
  Tensor tokens_per_expert;  // i32 [E]
  // f32 [T, E], for backward: the softmax (0 where it was over chosen ones
  // only), the sigmoid, or for sqrtsoftplus the logits.
  Tensor saved;
};

// logits [T, E] or [..., E] seen as such. `expert_bias` [E] f32, bf16 or f16
// moves the choice, not the weights; with softmax it is an Error{kUsage}.
// Sigmoid and sqrtsoftplus weights are divided by their sum + 1e-20 for topk >
// 1. (NVTE's kernel recovers the unbiased score by subtracting the bias again;
// here, as in its reference, it is never lost.)
RouterOutput router_topk_forward(const Tensor& logits,
                                 const RouterOptions& options,
                                 const std::optional<Tensor>& expert_bias = {});

// d_probs [T, E] to d_logits in its dtype. Gradients flow through the weights
// of the chosen experts, not through the choice.
Tensor router_topk_backward(const Tensor& d_probs, const Tensor& routing_map,
                            const Tensor& saved, const RouterOptions& options);

struct QuantileOutput {
  RouterOutput routed;
  Tensor cutoff;     // f32 [T]: the (topk + 1)-th best biased score
  Tensor histogram;  // i32 [E, bins]
};

// Quantile balancing: sigmoid routing with bias, topk < E, plus for every
// expert the histogram over tokens of cutoff - score, which is the bias that
// would just have routed the token: bin floor((cutoff - score - lower) *
// (bins / (upper - lower))), clamped to the first and last. `bin_bounds` f32
// [2], lower < upper; 1 to 2^24 bins. NaN counts in bin 0. Counts are added to
// `histogram` where one is given (in a fresh tensor).
QuantileOutput router_quantile_forward(
    const Tensor& logits, std::int64_t topk, const Tensor& expert_bias,
    const Tensor& bin_bounds, std::int64_t bins, double scaling_factor = 1.0,
    const std::optional<Tensor>& histogram = {},
    InternalPrecision precision = InternalPrecision::kF32);

// [T, E] bool to [T, ceil(E / 8)] u8, expert 8b + i in bit i, and back.
Tensor pack_routing_map(const Tensor& routing_map);
Tensor unpack_routing_map(const Tensor& bits, std::int64_t experts);

struct AuxScores {
  Tensor scores;       // f32 [T, E], each row sums to 1
  Tensor routing_map;  // bool [T, E]: the topk best
  Tensor saved;        // f32 [T, E], as in RouterOutput
};

// Scores of all experts for the balancing loss: softmax, or sigmoid /
// sqrtsoftplus divided by (their sum + 1e-20). (NVTE once left topk = 1
// undivided; this follows its present reference.)
AuxScores router_aux_scores_forward(
    const Tensor& logits, std::int64_t topk, ScoreFunction score_function,
    InternalPrecision precision = InternalPrecision::kF32);
// d_scores [T, E] to d_logits of `dtype`.
Tensor router_aux_scores_backward(
    const Tensor& d_scores, const Tensor& saved, ScoreFunction score_function,
    DType dtype, InternalPrecision precision = InternalPrecision::kF32);

struct AuxLossOptions {
  std::int64_t total_num_tokens = 0;  // of all ranks that share the loss
  std::int64_t num_experts = 0, topk = 1;
  double coeff = 1.0;
};

// E coeff / (topk total^2) * sum over e of tokens_e * sum over t of
// probs[t, e], as a tensor [1] of the dtype of probs [T, E]; fp64 sums in a
// fixed order. tokens_per_expert [E] i32, i64 or f32. total 0: Error{kUsage}.
Tensor moe_aux_loss_forward(const Tensor& probs,
                            const Tensor& tokens_per_expert,
                            const AuxLossOptions& options);
// d_loss [1] to [rows, E] of its dtype; the same row for every token.
Tensor moe_aux_loss_backward(const Tensor& d_loss,
                             const Tensor& tokens_per_expert, std::int64_t rows,
                             const AuxLossOptions& options);

}  // namespace assay::te
