// One head of attention as the kernels see it: where its rows are, what is
// masked, what is added to its logits, and the plain loops over it.
//
// Formula (NVTE, DotProductAttention), per query i and key j of the head:
//   x[i][j] = scale * (q[i] . k[j])  + added[i][j]      logits
//   p[i][j] = exp(x[i][j] - lse[i])                     0 where excluded
//   lse[i]  = log(sum_j exp(x[i][j]) (+ exp(sink)))     -inf: no key, no sink
//   out[i]  = sum_j kept[i][j] * p[i][j] * v[j]
// kept is 1 without dropout, else 0 or 1 / (1 - p). An excluded pair takes no
// part in any sum, whatever its operands hold: a NaN in a masked key does not
// reach the output. A query without keys has a zero output and no gradient;
// so has one whose logits are all -inf by themselves.
#pragma once

#include <cstddef>
#include <cstdint>

#include "assay/core/dtype.h"
#include "assay/kernels/dropout.h"
#include "assay/numerics/internal_precision.h"

namespace assay {

// Rows of a matrix; the stride counts elements.
struct RowsView {
  const std::byte* data = nullptr;
  std::int64_t stride = 0;
};

// What is added to the logits: scale * bias[i][j] - slope * |i + offset - j|.
// A bias of -inf excludes its pair exactly.
struct AttentionBias {
  const std::byte* data = nullptr;  // null: none
  DType dtype = DType::kF32;
  std::int64_t row_stride = 0, column_stride = 0;  // elements
  float scale = 1;
  float slope = 0;  // ALiBi; 0: none
  std::int64_t offset = 0;
};

// Dropout of probabilities: element = first + i * row + j, in 64 bits, of the
// mask that kernels/dropout.h defines.
struct AttentionDropout {
  DropoutDraw draw;      // threshold 0: none
  float keep_scale = 1;  // 1 / (1 - p)
  std::int64_t first = 0, row = 0;
};

struct AttentionHead {
  DType dtype = DType::kF32;  // of q, k, v, out and their gradients
  RowsView q, k, v;
  std::int64_t queries = 0, keys = 0;
  std::int64_t qk_dim = 0, v_dim = 0;
  float scale = 1;
  // Pair (i, j) is kept where i + low <= j <= i + high.
  std::int64_t low = kNoLow, high = kNoHigh;
  // Non-zero: excluded. Strides in bytes.
  const std::uint8_t* mask = nullptr;
  std::int64_t mask_row = 0, mask_column = 0;
  AttentionBias bias;
  bool has_sink = false;
  float sink = 0;
  AttentionDropout dropout;

  static constexpr std::int64_t kNoLow = -(std::int64_t{1} << 60);
  static constexpr std::int64_t kNoHigh = std::int64_t{1} << 60;
};

// Rows of `out` in the dtype of the head; lse and row_max have one fp32 value
// a query. All are overwritten; row_max may be null.
struct AttentionOutput {
  std::byte* out = nullptr;
  std::int64_t stride = 0;
  float* lse = nullptr;
  float* row_max = nullptr;  // the greatest logit or a NaN; no key: -inf
};

// What backward reads and writes of one head. dq, dk, dv are contiguous fp32
// rows, overwritten, as is d_sink (may be null). d_bias (may be null) is added
// to: several heads can share it.
//
// With delta[i] = d_out[i] . out[i]:
//   dS[i][j] = p[i][j] * (kept[i][j] * (d_out[i] . v[j]) - delta[i])
//   dq = scale * dS k, dk = scale * dS^T q, dv = (kept p)^T d_out
//   d_bias = bias.scale * dS, d_sink = -sum_i exp(sink - lse[i]) * delta[i]
// p comes from the given lse and delta from the given out, so that keys can be
// spread over several calls (context parallelism).
struct AttentionGradient {
  RowsView out, d_out;
  const float* lse = nullptr;
  float *dq = nullptr, *dk = nullptr, *dv = nullptr;
  float* d_bias = nullptr;
  std::int64_t d_bias_row = 0, d_bias_column = 0;
  double* d_sink = nullptr;
};

// True where the pair takes part: window, mask and a bias of -inf.
bool attention_keeps(const AttentionHead& head, std::int64_t i, std::int64_t j);
// added[i][j] of a kept pair.
double attention_added(const AttentionHead& head, std::int64_t i,
                       std::int64_t j);
// kept[i][j]: 0, keep_scale, or 1 without dropout.
float attention_kept(const AttentionDropout& dropout, std::int64_t i,
                     std::int64_t j);

// The formula as plain loops over queries [begin, end): every sum in
// `precision`, everything between in its type (fp64 for kF64). Thread-safe.
void ref_attention_forward(const AttentionHead& head, std::int64_t begin,
                           std::int64_t end, InternalPrecision precision,
                           const AttentionOutput& out);
// The whole head; holds keys x queries numbers for a moment.
void ref_attention_backward(const AttentionHead& head,
                            InternalPrecision precision,
                            const AttentionGradient& gradient);

}  // namespace assay
