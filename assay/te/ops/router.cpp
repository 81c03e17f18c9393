#include "assay/te/ops/router.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/te/ops/copy_runs.h"
#include "assay/te/ops/router_rows.h"

namespace assay::te {
namespace {

// Tokens of a block: fixed, so that counts and sums are the same for any
// number of threads.
constexpr std::int64_t kTokens = 64;

template <typename Body>
void for_token_blocks(std::int64_t tokens, Body body) {
  parallel_for((tokens + kTokens - 1) / kTokens, [&](std::int64_t block) {
    body(block * kTokens, std::min(tokens, (block + 1) * kTokens));
  });
}

void check(std::string_view op, const RouterOptions& o, std::int64_t experts,
           bool biased) {
  require(o.topk >= 1 && o.topk <= experts, op, "topk", std::to_string(o.topk),
          "1 to the number of experts, " + std::to_string(experts));
  require(!biased || o.score_function != ScoreFunction::kSoftmax, op,
          "expert_bias", "given with softmax scores",
          "sigmoid or sqrtsoftplus scores, or none");
  require_value(std::isfinite(o.scaling_factor), op, "scaling_factor",
                o.scaling_factor, "a finite number");
  if (o.num_groups == 0 && o.group_topk == 0) return;
  require(
      o.num_groups > 0 && experts % o.num_groups == 0, op, "num_groups",
      std::to_string(o.num_groups),
      "0, or a divisor of the number of experts, " + std::to_string(experts));
  require(o.group_topk > 0 && o.group_topk <= o.num_groups, op, "group_topk",
          std::to_string(o.group_topk),
          "1 to num_groups, " + std::to_string(o.num_groups));
  require_multiple(op, "topk (with groups, of group_topk)", o.topk,
                   o.group_topk);
  const std::int64_t size = experts / o.num_groups;
  require(o.topk / o.group_topk <= size, op, "topk / group_topk",
          std::to_string(o.topk / o.group_topk),
          "at most the experts of a group, " + std::to_string(size));
}

std::vector<float> widened(std::string_view op, const Tensor& bias,
                           std::int64_t experts) {
  require_high_precision(op, "expert_bias", bias);
  require_shape(op, "expert_bias", bias, {experts});
  const Tensor flat = contiguous(bias);
  std::vector<float> out(static_cast<std::size_t>(experts));
  convert_kernels(bias.device)
      .widen[float_width(bias.dtype())](flat.view.data, experts, out.data());
  return out;
}

// Chooses experts by what it is given as scores for the choice.
class Chooser {
 public:
  Chooser(const RouterOptions& options, std::int64_t experts)
      : options_(options), experts_(experts) {}

  // `count` experts, best first.
  const std::vector<std::int32_t>& choose(TokenScorer& scorer,
                                          const float* scores,
                                          std::int64_t count) {
    if (options_.num_groups == 0) {
      const std::int32_t* best = scorer.best(scores, experts_, count);
      chosen_.assign(best, best + count);
      return chosen_;
    }
    collect_groups(scorer, scores);
    const auto n = static_cast<std::int64_t>(experts_left_.size());
    const std::int32_t* best = scorer.best(scores_left_.data(), n, count);
    chosen_.clear();
    for (std::int64_t i = 0; i < count; ++i)
      chosen_.push_back(experts_left_[static_cast<std::size_t>(best[i])]);
    return chosen_;
  }

 private:
  // The experts of the best groups, in order, with their scores.
  void collect_groups(TokenScorer& scorer, const float* scores) {
    const std::int64_t size = experts_ / options_.num_groups;
    const std::int64_t members = options_.topk / options_.group_topk;
    group_scores_.assign(
        static_cast<std::size_t>(options_.num_groups + kScorePadding), 0);
    for (std::int64_t g = 0; g < options_.num_groups; ++g) {
      const std::int32_t* best = scorer.best(scores + g * size, size, members);
      float sum = 0;
      for (std::int64_t i = 0; i < members; ++i)
        sum += scores[g * size + best[i]];
      group_scores_[static_cast<std::size_t>(g)] = sum;
    }
    const std::int32_t* best = scorer.best(
        group_scores_.data(), options_.num_groups, options_.group_topk);
    std::vector<std::int32_t> groups(best, best + options_.group_topk);
    std::sort(groups.begin(), groups.end());
    experts_left_.clear();
    scores_left_.clear();
    for (std::int32_t g : groups)
      for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
        experts_left_.push_back(static_cast<std::int32_t>(e));
        scores_left_.push_back(scores[e]);
      }
    scores_left_.resize(scores_left_.size() + kScorePadding);
  }

  const RouterOptions& options_;
  std::int64_t experts_;
  std::vector<float> group_scores_, scores_left_;
  std::vector<std::int32_t> experts_left_, chosen_;
};

// Routes tokens one by one into the tensors of an output.
class Router {
 public:
  Router(const RouterOptions& options, InternalPrecision precision, DType dtype,
         std::int64_t experts, const std::vector<float>& bias, Device device)
      : options_(options),
        experts_(experts),
        bias_(bias),
        scorer_(options.score_function, precision, dtype, experts, device),
        chosen_scorer_(options.score_function, precision, dtype, options.topk,
                       device),
        chooser_(options, experts),
        narrow_(convert_kernels(device).narrow[float_width(dtype)]),
        biased_(static_cast<std::size_t>(experts + kScorePadding)),
        probs_(static_cast<std::size_t>(experts)) {}

  // Row pointers of one token. `extra`: how many experts more than topk are
  // ranked. Returns them, best first.
  const std::vector<std::int32_t>& route(const std::byte* logits,
                                         std::int64_t extra, float* saved,
                                         std::uint8_t* map, std::byte* probs) {
    const bool late = options_.score_function == ScoreFunction::kSoftmax &&
                      !options_.use_pre_softmax;
    scorer_.load(logits);
    if (options_.score_function == ScoreFunction::kSqrtSoftplus)
      std::copy_n(scorer_.scores(), experts_, saved);
    if (!late) scorer_.score(experts_);
    const float* scores = scorer_.scores();
    if (options_.score_function != ScoreFunction::kSqrtSoftplus) {
      if (late)
        std::fill_n(saved, experts_, 0.0f);
      else
        std::copy_n(scores, experts_, saved);
    }
    const auto& ranked =
        chooser_.choose(scorer_, with_bias(scores), options_.topk + extra);
    float* weights = chosen_scorer_.scores();
    for (std::int64_t k = 0; k < options_.topk; ++k)
      weights[k] = scores[ranked[static_cast<std::size_t>(k)]];
    finish_weights(weights, late);
    std::fill(probs_.begin(), probs_.end(), 0.0f);
    std::fill_n(map, experts_, std::uint8_t{0});
    for (std::int64_t k = 0; k < options_.topk; ++k) {
      const std::int32_t e = ranked[static_cast<std::size_t>(k)];
      if (late) saved[e] = weights[k];
      map[e] = 1;
      probs_[static_cast<std::size_t>(e)] = static_cast<float>(
          options_.scaling_factor * static_cast<double>(weights[k]));
    }
    narrow_(probs_.data(), experts_, probs);
    return ranked;
  }

  // Of the last token.
  const float* scores() { return scorer_.scores(); }
  const float* choice_scores() {
    return bias_.empty() ? scorer_.scores() : biased_.data();
  }

 private:
  const float* with_bias(const float* scores) {
    if (bias_.empty()) return scores;
    for (std::int64_t e = 0; e < experts_; ++e)
      biased_[static_cast<std::size_t>(e)] =
          scores[e] + bias_[static_cast<std::size_t>(e)];
    return biased_.data();
  }

  void finish_weights(float* weights, bool late) {
    if (late) return chosen_scorer_.score(options_.topk);
    if (options_.score_function == ScoreFunction::kSoftmax) return;
    if (options_.topk == 1) return;
    const double total =
        chosen_scorer_.sum(weights, options_.topk) + kNormEpsilon;
    for (std::int64_t k = 0; k < options_.topk; ++k)
      weights[k] = static_cast<float>(static_cast<double>(weights[k]) / total);
  }

  const RouterOptions& options_;
  std::int64_t experts_;
  const std::vector<float>& bias_;
  TokenScorer scorer_, chosen_scorer_;
  Chooser chooser_;
  void (*narrow_)(const float*, std::int64_t, std::byte*);
  std::vector<float> biased_, probs_;
};

Tensor count_tokens(const Tensor& routing_map) {
  const MatrixShape shape = matrix_shape(routing_map.shape());
  Tensor out = Tensor::zeros(DType::kI32, {shape.columns}, routing_map.device);
  auto* counts = out.mutable_data<std::int32_t>();
  const auto* map = routing_map.data<std::uint8_t>();
  for (std::int64_t t = 0; t < shape.rows; ++t)
    for (std::int64_t e = 0; e < shape.columns; ++e)
      counts[e] += map[t * shape.columns + e];
  return out;
}

// visit(router, token, ranked) after each token.
template <typename Visit>
RouterOutput route_all(std::string_view op, const Tensor& logits_in,
                       const RouterOptions& options,
                       const std::optional<Tensor>& expert_bias,
                       std::int64_t extra, Visit visit) {
  require_high_precision(op, "logits", logits_in);
  require(!logits_in.shape().empty(), op, "logits", "a 0-d tensor",
          "at least 1 dimension");
  const Device device =
      common_device(op, {&logits_in, expert_bias ? &*expert_bias : nullptr});
  const Tensor logits = contiguous(logits_in);
  const MatrixShape shape = matrix_shape(logits.shape());
  const std::int64_t experts = shape.columns;
  check(op, options, experts, expert_bias.has_value());
  const InternalPrecision precision =
      router_precision(options.precision, device);
  const std::vector<float> bias =
      expert_bias ? widened(op, *expert_bias, experts) : std::vector<float>();

  Shape chosen = logits.shape();
  chosen.back() = options.topk;
  RouterOutput out;
  out.probs = Tensor::empty(logits.dtype(), logits.shape(), device);
  out.routing_map = Tensor::empty(DType::kBool, logits.shape(), device);
  out.topk_indices = Tensor::empty(DType::kI32, chosen, device);
  out.saved = Tensor::empty(DType::kF32, logits.shape(), device);
  const std::int64_t bytes = experts * traits(logits.dtype()).bits / 8;
  for_token_blocks(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    Router router(options, precision, logits.dtype(), experts, bias, device);
    for (std::int64_t t = begin; t < end; ++t) {
      const auto& ranked = router.route(
          logits.data<std::byte>() + t * bytes, extra,
          out.saved.mutable_data<float>() + t * experts,
          out.routing_map.mutable_data<std::uint8_t>() + t * experts,
          out.probs.mutable_data() + t * bytes);
      std::copy_n(
          ranked.begin(), options.topk,
          out.topk_indices.mutable_data<std::int32_t>() + t * options.topk);
      visit(router, t, ranked);
    }
  });
  out.tokens_per_expert = count_tokens(out.routing_map);
  return out;
}

}  // namespace

RouterOutput router_topk_forward(const Tensor& logits,
                                 const RouterOptions& options,
                                 const std::optional<Tensor>& expert_bias) {
  return route_all("router_topk_forward", logits, options, expert_bias, 0,
                   [](Router&, std::int64_t, const auto&) {});
}

Tensor router_topk_backward(const Tensor& d_probs_in, const Tensor& map_in,
                            const Tensor& saved_in,
                            const RouterOptions& options) {
  constexpr std::string_view kOp = "router_topk_backward";
  require_high_precision(kOp, "d_probs", d_probs_in);
  require_dtype(kOp, "routing_map", map_in, {DType::kBool, DType::kU8});
  require_dtype(kOp, "saved", saved_in, {DType::kF32});
  require_shape(kOp, "routing_map", map_in, d_probs_in.shape());
  require_shape(kOp, "saved", saved_in, d_probs_in.shape());
  const Device device = common_device(kOp, {&d_probs_in, &map_in, &saved_in});
  const Tensor d_probs = contiguous(d_probs_in), map = contiguous(map_in),
               saved = contiguous(saved_in);
  const DType dtype = d_probs.dtype();
  const MatrixShape shape = matrix_shape(d_probs.shape());
  const std::int64_t n = shape.columns;
  check(kOp, options, n, false);
  const InternalPrecision precision =
      router_precision(options.precision, device);
  const bool softmax = options.score_function == ScoreFunction::kSoftmax;
  Tensor out = Tensor::empty(dtype, d_probs.shape(), device);
  for_token_blocks(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    GradientRow row(n, device);
    double* g = row.g.data();
    std::vector<float> y(static_cast<std::size_t>(n));
    for (std::int64_t t = begin; t < end; ++t) {
      const float* kept = saved.data<float>() + t * n;
      const std::uint8_t* used = map.data<std::uint8_t>() + t * n;
      row.load(d_probs, t);
      for (std::int64_t i = 0; i < n; ++i)
        g[i] = used[i] ? options.scaling_factor * g[i] : 0.0;
      if (softmax) {
        softmax_gradient(kept, options.use_pre_softmax ? nullptr : used, n,
                         precision, dtype, g);
      } else {
        activation_values(options.score_function, kept, n, y.data());
        if (options.topk > 1)
          norm_gradient(y.data(), used, n, precision, dtype, g);
        activation_gradient(options.score_function, kept, n, g);
      }
      row.store(out, t);
    }
  });
  return out;
}

namespace {

// As many as fp32 counts one by one.
constexpr std::int64_t kMaxBins = std::int64_t{1} << 24;

// Clamped as an integer: the last bin may round up as a float. NaN: bin 0.
std::int32_t clamped_bin(float bin, std::int32_t bins) {
  if (!(bin > 0)) return 0;
  if (bin >= static_cast<float>(bins)) return bins - 1;
  return std::min(static_cast<std::int32_t>(bin), bins - 1);
}

}  // namespace

QuantileOutput router_quantile_forward(const Tensor& logits, std::int64_t topk,
                                       const Tensor& expert_bias,
                                       const Tensor& bin_bounds,
                                       std::int64_t bins, double scaling_factor,
                                       const std::optional<Tensor>& histogram,
                                       InternalPrecision precision) {
  constexpr std::string_view kOp = "router_quantile_forward";
  require_high_precision(kOp, "logits", logits);
  require(!logits.shape().empty(), kOp, "logits", "a 0-d tensor",
          "at least 1 dimension");
  require_dtype(kOp, "bin_bounds", bin_bounds, {DType::kF32});
  require_shape(kOp, "bin_bounds", bin_bounds, {2});
  common_device(kOp,
                {&logits, &expert_bias, &bin_bounds, address_of(histogram)});
  const Tensor bounds = contiguous(bin_bounds);
  const float lower = bounds.data<float>()[0];
  const float upper = bounds.data<float>()[1];
  require(lower < upper, kOp, "bin_bounds",
          std::to_string(lower) + ", " + std::to_string(upper),
          "the lower bound first");
  require(bins > 0 && bins <= kMaxBins, kOp, "bins", std::to_string(bins),
          "1 to " + std::to_string(kMaxBins));
  const MatrixShape shape = matrix_shape(logits.shape());
  require(topk >= 1 && topk < shape.columns, kOp, "topk", std::to_string(topk),
          "at least 1 and less than the number of experts, " +
              std::to_string(shape.columns));
  RouterOptions options{.topk = topk,
                        .score_function = ScoreFunction::kSigmoid,
                        .scaling_factor = scaling_factor,
                        .precision = precision};
  QuantileOutput out;
  Shape tokens = logits.shape();
  tokens.pop_back();
  out.cutoff = Tensor::empty(DType::kF32, tokens, logits.device);
  out.histogram =
      Tensor::zeros(DType::kI32, {shape.columns, bins}, logits.device);
  auto* cutoffs = out.cutoff.mutable_data<float>();
  std::vector<std::int32_t> bin_of(
      static_cast<std::size_t>(shape.rows * shape.columns));
  const float factor = static_cast<float>(bins) / (upper - lower);
  out.routed =
      route_all(kOp, logits, options, expert_bias, 1,
                [&](Router& router, std::int64_t t, const auto& ranked) {
                  cutoffs[t] = router.choice_scores()[ranked.back()];
                  for (std::int64_t e = 0; e < shape.columns; ++e) {
                    const float needed = cutoffs[t] - router.scores()[e];
                    const float bin = std::floor((needed - lower) * factor);
                    bin_of[static_cast<std::size_t>(t * shape.columns + e)] =
                        clamped_bin(bin, static_cast<std::int32_t>(bins));
                  }
                });
  auto* counts = out.histogram.mutable_data<std::int32_t>();
  if (histogram) {
    require_dtype(kOp, "histogram", *histogram, {DType::kI32});
    require_shape(kOp, "histogram", *histogram, {shape.columns, bins});
    const Tensor before = contiguous(*histogram);
    std::copy_n(before.data<std::int32_t>(), before.numel(), counts);
  }
  for (std::size_t i = 0; i < bin_of.size(); ++i)
    ++counts[static_cast<std::int64_t>(i) % shape.columns * bins + bin_of[i]];
  return out;
}

Tensor pack_routing_map(const Tensor& routing_map) {
  constexpr std::string_view kOp = "pack_routing_map";
  require_dtype(kOp, "routing_map", routing_map, {DType::kBool, DType::kU8});
  require_rank(kOp, "routing_map", routing_map, 2);
  const Tensor map = contiguous(routing_map);
  const std::int64_t tokens = map.shape()[0], experts = map.shape()[1];
  const std::int64_t width = (experts + 7) / 8;
  Tensor out = Tensor::zeros(DType::kU8, {tokens, width}, map.device);
  auto* bits = out.mutable_data<std::uint8_t>();
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = 0; e < experts; ++e)
      if (map.data<std::uint8_t>()[t * experts + e] != 0)
        bits[t * width + e / 8] |= static_cast<std::uint8_t>(1 << e % 8);
  return out;
}

Tensor unpack_routing_map(const Tensor& bits_in, std::int64_t experts) {
  constexpr std::string_view kOp = "unpack_routing_map";
  require_dtype(kOp, "bits", bits_in, {DType::kU8});
  require(experts >= 0, kOp, "experts", std::to_string(experts), "0 or more");
  require_rank(kOp, "bits", bits_in, 2);
  const std::int64_t tokens = bits_in.shape()[0];
  const std::int64_t width = (experts + 7) / 8;
  require_shape(kOp, "bits", bits_in, {tokens, width});
  const Tensor bits = contiguous(bits_in);
  Tensor out = Tensor::empty(DType::kBool, {tokens, experts}, bits.device);
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t e = 0; e < experts; ++e)
      out.mutable_data<std::uint8_t>()[t * experts + e] =
          bits.data<std::uint8_t>()[t * width + e / 8] >> e % 8 & 1;
  return out;
}

}  // namespace assay::te
