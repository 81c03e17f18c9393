#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/base/parallel.h"
#include "assay/te/ops/attention.h"
#include "assay/te/ops/attention_flash.h"
#include "assay/te/ops/attention_problem.h"

namespace assay::te {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr std::int64_t kPlainRows = 64;  // queries of one task

void plain_forward(const AttentionProblem& p,
                   std::span<const AttentionOutput> outputs) {
  struct Work {
    std::size_t head;
    std::int64_t begin, end;
  };
  std::vector<Work> work;
  for (std::size_t h = 0; h < p.heads.size(); ++h)
    for (std::int64_t i = 0; i < p.heads[h].queries; i += kPlainRows)
      work.push_back({h, i, std::min(i + kPlainRows, p.heads[h].queries)});
  parallel_for(static_cast<std::int64_t>(work.size()), [&](std::int64_t w) {
    const auto& [h, begin, end] = work[static_cast<std::size_t>(w)];
    ref_attention_forward(p.heads[h], begin, end, p.precision, outputs[h]);
  });
}

Shape out_shape(const Shape& q, std::int64_t dim) {
  Shape shape = q;
  shape.back() = dim;
  return shape;
}

// Greatest of every head's row maxima, over the sequences. A NaN stays.
Tensor head_maxima(const AttentionProblem& p,
                   const std::vector<float>& row_max) {
  Tensor maxima = Tensor::empty(DType::kF32, {p.q.heads}, p.device);
  auto* out = maxima.mutable_data<float>();
  std::fill_n(out, p.q.heads, kNone);
  for (std::size_t h = 0; h < p.heads.size(); ++h) {
    float& best = out[h % static_cast<std::size_t>(p.q.heads)];
    const auto* rows = row_max.data() + p.lse_offset(h);
    for (std::int64_t i = 0; i < p.heads[h].queries; ++i)
      if (rows[i] > best || std::isnan(rows[i])) best = rows[i];
  }
  return maxima;
}

}  // namespace

AttentionResult attention_forward(const AttentionInputs& inputs,
                                  const AttentionOptions& options) {
  const AttentionProblem p =
      make_attention_problem("attention_forward", inputs, options);
  const DType dtype = inputs.q.dtype();
  const Shape shape = out_shape(inputs.q.shape(), p.v.dim);
  AttentionResult result;
  result.out = p.padded_q ? Tensor::zeros(dtype, shape, p.device)
                          : Tensor::empty(dtype, shape, p.device);
  result.lse = Tensor::empty(DType::kF32, p.lse_shape(), p.device);
  auto* lse = result.lse.mutable_data<float>();
  std::fill_n(lse, result.lse.numel(), kNone);
  std::vector<float> row_max;
  if (options.want_max_logit)
    row_max.assign(static_cast<std::size_t>(result.lse.numel()), kNone);
  std::vector<AttentionOutput> outputs;
  for (std::size_t h = 0; h < p.heads.size(); ++h) {
    const auto index = static_cast<std::int64_t>(h);
    const std::int64_t at = p.out.offset(
        index / p.q.heads, p.sequence(h).q_begin, index % p.q.heads);
    outputs.push_back(
        {result.out.mutable_data() + at * (traits(dtype).bits / 8),
         p.out.row_stride(), lse + p.lse_offset(h),
         row_max.empty() ? nullptr : row_max.data() + p.lse_offset(h)});
  }
  if (runs_plain(p, dtype))
    plain_forward(p, outputs);
  else
    flash_attention_forward(choose_attention_tiles(dtype), p.heads, outputs);
  if (options.want_max_logit) result.max_logit = head_maxima(p, row_max);
  return result;
}

}  // namespace assay::te
