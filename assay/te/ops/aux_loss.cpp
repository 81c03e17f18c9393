// The balancing loss of a router, and the scores it is formed from.
#include <algorithm>
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/numerics/summation.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/ops/router.h"
#include "assay/te/ops/router_rows.h"

namespace assay::te {
namespace {

// E coeff / (topk total^2), in fp64.
double loss_factor(std::string_view op, const AuxLossOptions& o) {
  require(o.total_num_tokens > 0, op, "total_num_tokens",
          std::to_string(o.total_num_tokens), "> 0");
  require(o.topk > 0, op, "topk", std::to_string(o.topk), "> 0");
  const auto total = static_cast<double>(o.total_num_tokens);
  return static_cast<double>(o.num_experts) * o.coeff /
         (static_cast<double>(o.topk) * total * total);
}

std::vector<double> counts_of(std::string_view op, const Tensor& tensor,
                              const AuxLossOptions& options) {
  require_dtype(op, "tokens_per_expert", tensor,
                {DType::kI32, DType::kI64, DType::kF32});
  require_shape(op, "tokens_per_expert", tensor, {options.num_experts});
  const Tensor flat = contiguous(tensor);
  std::vector<double> out(static_cast<std::size_t>(options.num_experts));
  load_as_doubles(flat.dtype(), flat.view.data, 0, options.num_experts,
                  out.data());
  return out;
}

}  // namespace

AuxScores router_aux_scores_forward(const Tensor& logits_in, std::int64_t topk,
                                    ScoreFunction function,
                                    InternalPrecision asked) {
  constexpr std::string_view kOp = "router_aux_scores_forward";
  require_high_precision(kOp, "logits", logits_in);
  require(!logits_in.shape().empty(), kOp, "logits", "a 0-d tensor",
          "at least 1 dimension");
  const Tensor logits = contiguous(logits_in);
  const MatrixShape shape = matrix_shape(logits.shape());
  const std::int64_t n = shape.columns;
  require(topk >= 1 && topk <= n, kOp, "topk", std::to_string(topk),
          "1 to the number of experts, " + std::to_string(n));
  const Device device = logits.device;
  const InternalPrecision precision = router_precision(asked, device);
  AuxScores out;
  out.scores = Tensor::empty(DType::kF32, logits.shape(), device);
  out.routing_map = Tensor::zeros(DType::kBool, logits.shape(), device);
  out.saved = Tensor::empty(DType::kF32, logits.shape(), device);
  const std::int64_t bytes = n * traits(logits.dtype()).bits / 8;
  for_row_blocks(
      shape.rows, rows_of_bytes(4 * n),
      [&](std::int64_t begin, std::int64_t end) {
        TokenScorer scorer(function, precision, logits.dtype(), n, device);
        for (std::int64_t t = begin; t < end; ++t) {
          float* scores = scorer.scores();
          float* saved = out.saved.mutable_data<float>() + t * n;
          scorer.load(logits.data<std::byte>() + t * bytes);
          std::copy_n(scores, n, saved);
          scorer.score(n);
          if (function != ScoreFunction::kSqrtSoftplus)
            std::copy_n(scores, n, saved);
          if (function != ScoreFunction::kSoftmax) {
            const double total = scorer.sum(scores, n) + kNormEpsilon;
            for (std::int64_t e = 0; e < n; ++e)
              scores[e] =
                  static_cast<float>(static_cast<double>(scores[e]) / total);
          }
          const std::int32_t* best = scorer.best(scores, n, topk);
          for (std::int64_t k = 0; k < topk; ++k)
            out.routing_map.mutable_data<std::uint8_t>()[t * n + best[k]] = 1;
          std::copy_n(scores, n, out.scores.mutable_data<float>() + t * n);
        }
      });
  return out;
}

Tensor router_aux_scores_backward(const Tensor& d_scores_in,
                                  const Tensor& saved_in,
                                  ScoreFunction function, DType dtype,
                                  InternalPrecision asked) {
  constexpr std::string_view kOp = "router_aux_scores_backward";
  require_high_precision(kOp, "d_scores", d_scores_in);
  require_dtype(kOp, "saved", saved_in, {DType::kF32});
  require_shape(kOp, "saved", saved_in, d_scores_in.shape());
  const Device device = common_device(kOp, {&d_scores_in, &saved_in});
  const Tensor d_scores = contiguous(d_scores_in), saved = contiguous(saved_in);
  const InternalPrecision precision = router_precision(asked, device);
  const MatrixShape shape = matrix_shape(d_scores.shape());
  const std::int64_t n = shape.columns;
  Tensor out = Tensor::empty(dtype, d_scores.shape(), device);
  require_high_precision(kOp, "dtype", out);
  for_row_blocks(shape.rows, rows_of_bytes(4 * n),
                 [&](std::int64_t begin, std::int64_t end) {
                   GradientRow row(n, device);
                   double* g = row.g.data();
                   std::vector<float> y(static_cast<std::size_t>(n));
                   for (std::int64_t t = begin; t < end; ++t) {
                     const float* kept = saved.data<float>() + t * n;
                     row.load(d_scores, t);
                     if (function == ScoreFunction::kSoftmax) {
                       softmax_gradient(kept, nullptr, n, precision, dtype, g);
                     } else {
                       activation_values(function, kept, n, y.data());
                       norm_gradient(y.data(), nullptr, n, precision, dtype, g);
                       activation_gradient(function, kept, n, g);
                     }
                     row.store(out, t);
                   }
                 });
  return out;
}

Tensor moe_aux_loss_forward(const Tensor& probs_in,
                            const Tensor& tokens_per_expert,
                            const AuxLossOptions& options) {
  constexpr std::string_view kOp = "moe_aux_loss_forward";
  require_high_precision(kOp, "probs", probs_in);
  require_rank(kOp, "probs", probs_in, 2);
  require_shape(kOp, "probs", probs_in,
                {probs_in.shape()[0], options.num_experts});
  const Device device = common_device(kOp, {&probs_in, &tokens_per_expert});
  const double factor = loss_factor(kOp, options);
  const std::vector<double> tokens = counts_of(kOp, tokens_per_expert, options);
  const Tensor probs = contiguous(probs_in);
  const std::int64_t n = options.num_experts, rows = probs.shape()[0];
  std::vector<double> row(static_cast<std::size_t>(n));
  PairwiseSum total;
  for (std::int64_t t = 0; t < rows; ++t) {
    load_as_doubles(probs.dtype(), probs.view.data, t * n, n, row.data());
    double sum = 0;
    for (std::size_t e = 0; e < row.size(); ++e) sum += row[e] * tokens[e];
    total.add(sum);
  }
  Tensor loss = Tensor::empty(probs.dtype(), {1}, device);
  store_from_double(probs.dtype(), total.total() * factor, loss.mutable_data(),
                    0);
  return loss;
}

Tensor moe_aux_loss_backward(const Tensor& d_loss,
                             const Tensor& tokens_per_expert, std::int64_t rows,
                             const AuxLossOptions& options) {
  constexpr std::string_view kOp = "moe_aux_loss_backward";
  require_high_precision(kOp, "d_loss", d_loss);
  require_shape(kOp, "d_loss", d_loss, {1});
  const Device device = common_device(kOp, {&d_loss, &tokens_per_expert});
  const double factor = loss_factor(kOp, options) *
                        load_as_double(d_loss.dtype(), d_loss.view.data, 0);
  const std::vector<double> tokens = counts_of(kOp, tokens_per_expert, options);
  Tensor out =
      Tensor::empty(d_loss.dtype(), {rows, options.num_experts}, device);
  for (std::int64_t i = 0; i < out.numel(); ++i)
    store_from_double(
        out.dtype(),
        factor * tokens[static_cast<std::size_t>(i % options.num_experts)],
        out.mutable_data(), i);
  return out;
}

}  // namespace assay::te
