// Dot-product attention, forward and backward, as NVTE's DotProductAttention
// defines it, and the merge of partial results.
//
// Formula: kernels/attention.h. S = scale * Q K^T (+ bias) -> excluded pairs
// take no part -> softmax in fp32 -> dropout -> times V. NVTE's unfused path
// writes -10000 where we exclude; the two agree but for rows without any key:
// those give zeros here (and in NVTE's fused kernels), a uniform row there.
//
// Rounding points, threading, and which heads of bf16 run in fp32 tiles (in
// backward all of a call or none): attention_flash.h. Device::kReference,
// ASSAY_ISA=scalar and precisions other than fp32 run plain loops instead.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "assay/core/tensor.h"
#include "assay/numerics/internal_precision.h"
#include "assay/te/ops/softmax_type.h"

namespace assay::te {

// Shapes of q; k and v likewise with their own lengths and heads.
enum class QkvFormat : std::uint8_t {
  kSbhd,  // [sequence, batch, heads, dim]
  kBshd,  // [batch, sequence, heads, dim]
  kThd,   // [tokens, heads, dim], sequences packed one after the other
};

enum class AttentionMask : std::uint8_t {
  kNone,
  kPadding,  // per sequence: only the first len_q queries and len_kv keys
  kCausal,   // key j <= query i
  kPaddingCausal,
  kCausalBottomRight,  // key j <= query i + len_kv - len_q
  kPaddingCausalBottomRight,
  kArbitrary,  // a boolean tensor, true: excluded
};

enum class AttentionBiasType : std::uint8_t {
  kNone,
  kPreScale,   // scale * (Q K^T + bias)
  kPostScale,  // scale * Q K^T + bias
  kAlibi,      // scale * Q K^T - slope |i - j|
};

// NVTE's spellings; commas are underscores, "causal_padding" is
// "padding_causal". Throws Error{kUsage} that lists them.
QkvFormat parse_qkv_format(std::string_view text);
AttentionMask parse_attention_mask(std::string_view text);
SoftmaxType parse_softmax_type(std::string_view text);
AttentionBiasType parse_attention_bias(std::string_view text);

struct AttentionOptions {
  QkvFormat q_format = QkvFormat::kSbhd;
  QkvFormat kv_format = QkvFormat::kSbhd;
  AttentionMask mask = AttentionMask::kCausal;
  // Sliding window: keys [i + off - left, i + off + right]; -1: no limit. off
  // is len_kv - len_q for bottom-right masks, else 0. Causal masks: right = 0.
  std::int64_t window_left = -1, window_right = -1;
  // Where the diagonal of window, causal mask and ALiBi is. Absent: as the
  // mask says; ALiBi: bottom right but under the top-left causal masks.
  std::optional<bool> bottom_right;
  std::optional<float> scale;  // finite; absent: 1 / sqrt(dim of q)
  SoftmaxType softmax = SoftmaxType::kVanilla;
  AttentionBiasType bias = AttentionBiasType::kNone;
  // Probability in [0, 1); elements are dropped at the rate floor(256 p) / 256
  // and the others times 1 / (1 - p) (trap T19). The same seed and offset give
  // backward the mask of forward. Element numbers count [batch, heads, max_q,
  // max_kv]; max_q and max_kv are the sequence dimensions, for thd and with
  // origins those below.
  double dropout = 0;
  std::uint64_t seed = 0, offset = 0;
  std::int64_t max_q = 0, max_kv = 0;  // 0: the longest sequence
  bool want_max_logit = false;
  InternalPrecision precision = InternalPrecision::kF32;
};

// An input that no option reads is refused rather than ignored. All are on
// one device.
struct AttentionInputs {
  // float32, bfloat16 or float16, all of one dtype. Heads of q are a multiple
  // of those of k and v; query head h uses key head h / (heads_q / heads_kv)
  // (repeat_interleave). v may have another dim than q and k.
  Tensor q, k, v;
  // kArbitrary needs it: bool or uint8 [1 or b, 1 or h, sq, skv].
  std::optional<Tensor> mask;
  // kPreScale and kPostScale need it: float [1 or b, 1 or h, sq, skv].
  std::optional<Tensor> bias;
  // kAlibi takes it: f32 [h] or [b, h]; absent: the standard slopes.
  std::optional<Tensor> alibi_slopes;
  // kLearnable needs it: f32, h elements.
  std::optional<Tensor> softmax_offset;
  // int32 [b + 1]: thd and padding masks need them. Where a sequence begins in
  // thd is given by the padded ones, which thd takes.
  std::optional<Tensor> cu_seqlens_q, cu_seqlens_kv;
  std::optional<Tensor> cu_seqlens_q_padded, cu_seqlens_kv_padded;
  // Both or none, int32 [b]: where the first query and the first key of each
  // sequence are in a longer one whose rest other calls hold. Causal masks,
  // window, ALiBi and element numbers of dropout count from there. Not with a
  // bottom-right diagonal, which hangs on the lengths of the whole.
  std::optional<Tensor> origin_q, origin_kv;
};

struct AttentionResult {
  Tensor out;  // as q with the dim of v; rows of padding are zero
  // f32 [b, h, sq], thd [h, tokens]: log-sum-exp of the logits, with the sink;
  // -inf where there is no key and for padding.
  Tensor lse;
  // f32 [h], want_max_logit only: the greatest logit. -inf without keys, NaN
  // where a logit is NaN (one that has +inf beside it in its row may give
  // +inf).
  Tensor max_logit;
};

struct AttentionGradients {
  Tensor dq, dk, dv;
  std::optional<Tensor> d_bias;            // as the bias; pre- and post-scale
  std::optional<Tensor> d_softmax_offset;  // f32 [h]; kLearnable
};

// Throws Error{kUsage} for shapes, dtypes and options that do not fit.
AttentionResult attention_forward(const AttentionInputs& inputs,
                                  const AttentionOptions& options);

// Gradients of sum(d_out * out), everything overwritten. `out` and `lse` are
// forward's, or the merged ones where keys are spread over several calls: the
// logits are made again, p from `lse`.
AttentionGradients attention_backward(const Tensor& d_out,
                                      const AttentionInputs& inputs,
                                      const Tensor& out, const Tensor& lse,
                                      const AttentionOptions& options);

// Slopes 2^(-8k/n), k = 1..n, for n heads, a power of two; else those of the
// next lower power and then every other one of twice as many (Press et al.,
// "Train short, test long", 2022). fp32.
std::vector<float> alibi_slopes(std::int64_t heads);

// Two results over disjoint keys as one: lse = log(e^a + e^b), out = sum of
// out * exp(own lse - lse), in fp64, rounded once. lse [b, h, sq] or [h, t] as
// attention_forward gives it; -inf on both sides gives zeros, a NaN on either
// a row of NaN. A sink belongs to one of the two only.
struct AttentionPartial {
  Tensor out, lse;
};
AttentionPartial merge_attention(const AttentionPartial& a,
                                 const AttentionPartial& b, QkvFormat format);

}  // namespace assay::te
