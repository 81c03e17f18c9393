// The default standard: each element against the unit roundoff and the class
// of the operator, then the tensor as a whole against what independent
// rounding can do.
//
// Whole-tensor criteria (d = target - golden over N elements):
//   norm_l2  ||d|| / ||g|| <= norm
//   alpha    |alpha - 1| <= coherent + k_a * norm_l2 * max|g| / ||g||
//   bias     |mean d| <= coherent * rms(g) + k_b * rmse / sqrt(N)
// If the d_i are independent with zero mean, the variance of alpha is
// sum(d^2 g^2) / ||g||^4 <= (||d|| max|g| / ||g||^2)^2 and that of the bias is
// rmse^2 / N, whatever the sizes of the d_i: k_a and k_b count standard
// deviations of the measured error, so both tests ask how coherent the error
// is, not how large. One wrong element passes them by construction (its ratio
// is at most 1) and is the element bound's to find. ||g|| / max|g| is sqrt(N)
// for values of one magnitude and less where few outliers carry the norm.
// `coherent` is what a kernel may do to a whole tensor in its fp32 inside.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/core/value_text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"
#include "assay/metrics/standard_kinds.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

struct Limits {
  double ulps = 0;      // element: ulps of the golden value
  double rtol = 0;      // element: share of |golden|
  double rms = 0;       // element: share of rms(golden)
  double norm = 0;      // normalised L2
  double coherent = 0;  // alpha and bias, relative
};

struct ClassLimits {
  Limits elementwise, reduction, gemm, unknown;
};

Limits read_limits(const ConfigNode& node) {
  node.allow_only({"ulps", "rtol", "rms", "norm", "coherent"});
  return {node.at("ulps").number(), node.number_or("rtol", 0),
          node.at("rms").number(), node.at("norm").number(),
          node.at("coherent").number()};
}

ClassLimits read_classes(const ConfigNode& node) {
  node.allow_only({"elementwise", "reduction", "gemm", "unknown"});
  return {read_limits(node.at("elementwise")),
          read_limits(node.at("reduction")), read_limits(node.at("gemm")),
          read_limits(node.at("unknown"))};
}

const Limits& pick(const ClassLimits& limits, OpClass op) {
  switch (op) {
    case OpClass::kElementwise:
      return limits.elementwise;
    case OpClass::kReduction:
      return limits.reduction;
    case OpClass::kGemm:
      return limits.gemm;
    default:
      return limits.unknown;
  }
}

// Multiplies the relative terms where the dtype's spacing near zero, not its
// unit roundoff, is what the tensor's values are rounded to.
double spacing_factor(const ErrorStats& stats) {
  const DType dtype = component(stats.judged_dtype);
  const double rms = golden_rms(stats);
  if (rms == 0) return 1;
  return 1 + 0.5 * min_positive(dtype) / (unit_roundoff(dtype) * rms);
}

class Layered final : public StandardBase {
 public:
  explicit Layered(const ConfigNode& node)
      : StandardBase(node, {"dtypes", "sigmas", "noise_factor"}),
        table_(node.at("dtypes"), read_classes),
        noise_factor_(node.at("noise_factor").number()) {
    const ConfigNode& sigmas = node.at("sigmas");
    sigmas.allow_only({"alpha", "bias"});
    alpha_sigmas_ = sigmas.at("alpha").number();
    bias_sigmas_ = sigmas.at("bias").number();
  }

 protected:
  Judgement judge_values(const ErrorStats& stats, OpClass op,
                         const ErrorStats* baseline,
                         double noise_norm_l2) const override;

  std::optional<DetailRequest> request_for_values(const ErrorStats& stats,
                                                  OpClass op) const override {
    const ClassLimits* row = table_.find(stats.judged_dtype);
    if (!row) return std::nullopt;
    const Limits& limits = pick(*row, op);
    DetailRequest request;
    request.bound = {limits.rms * golden_rms(stats), limits.rtol, limits.ulps};
    return request;
  }

  std::optional<StatisticsBounds> statistics_bounds(DType dtype,
                                                    OpClass op) const override;

 private:
  std::optional<Reason> check_elements(const ErrorStats& stats,
                                       const Limits& limits, double factor,
                                       double noise) const;
  std::optional<Reason> check_alpha(const ErrorStats& stats, double coherent,
                                    double noise) const;
  std::optional<Reason> check_bias(const ErrorStats& stats, double coherent,
                                   double noise) const;

  DTypeTable<ClassLimits> table_;
  double noise_factor_;
  double alpha_sigmas_ = 0;
  double bias_sigmas_ = 0;
};

std::string bound_text(const Limits& limits, double rms) {
  return fmt::format("{} ulp + {}", format_double(limits.ulps),
                     format_figure(limits.rms * rms));
}

// One line for a match: how far from the bounds it stayed.
Reason margin(const ErrorStats& stats, double norm_bound) {
  return remark(
      "within",
      fmt::format("worst element at {} of its bound (flat index {}), "
                  "normalised L2 {} of {}, alpha - 1 {}",
                  format_figure(stats.detail->worst_excess),
                  stats.detail->worst_excess_index,
                  format_figure(stats.norm_l2), format_figure(norm_bound),
                  format_figure(stats.alpha - 1)),
      stats.detail->worst_excess);
}

std::optional<Reason> Layered::check_elements(const ErrorStats& stats,
                                              const Limits& limits,
                                              double factor,
                                              double noise) const {
  const DetailStats& detail = *stats.detail;
  if (factor <= 1 ? detail.over_bound == 0 && detail.worst_excess <= 1
                  : detail.worst_excess <= factor)
    return std::nullopt;
  const double rms = golden_rms(stats);
  // Twice the usual tail of a normal error of the noise's size.
  if (noise > 0 && stats.max_abs <= 2 * noise_factor_ * noise * rms)
    return std::nullopt;
  std::string text = fmt::format(
      "{} of {} elements over the bound ({}), worst {} times over at flat "
      "index {}",
      detail.over_bound, stats.finite, bound_text(limits, rms),
      format_figure(detail.worst_excess), detail.worst_excess_index);
  if (detail.worst_excess_index == stats.max_abs_index) {
    text +=
        fmt::format(" (golden {}, target {})",
                    value_text(stats.judged_dtype, stats.golden_at_max_abs),
                    value_text(stats.judged_dtype, stats.target_at_max_abs));
  }
  return deciding("element_bound", std::move(text), detail.worst_excess, factor,
                  detail.worst_excess_index);
}

std::optional<Reason> Layered::check_alpha(const ErrorStats& stats,
                                           double coherent,
                                           double noise) const {
  const double off = std::fabs(stats.alpha - 1);
  const double concentration = golden_amax(stats) / stats.golden.l2;
  const double bound = coherent + std::max(noise, 0.0) +
                       alpha_sigmas_ * stats.norm_l2 * concentration;
  if (off <= bound) return std::nullopt;
  return deciding(
      "alpha",
      fmt::format("alpha {:.6f} differs from 1 by {}, bound {}: "
                  "a common scale factor, not independent rounding",
                  stats.alpha, format_figure(off), format_figure(bound)),
      stats.alpha, bound);
}

std::optional<Reason> Layered::check_bias(const ErrorStats& stats,
                                          double coherent, double noise) const {
  const double allowed = coherent + std::max(noise, 0.0);
  const double bound =
      allowed * golden_rms(stats) +
      bias_sigmas_ * stats.rmse / std::sqrt(static_cast<double>(stats.finite));
  if (std::fabs(stats.bias) <= bound) return std::nullopt;
  return deciding("bias",
                  fmt::format("bias {}, bound {}: errors of one direction, not "
                              "independent rounding",
                              format_figure(stats.bias), format_figure(bound)),
                  stats.bias, bound);
}

Judgement Layered::judge_values(const ErrorStats& stats, OpClass op,
                                const ErrorStats*, double noise) const {
  if (op == OpClass::kMovement && !(noise > 0))
    return make_judgement(Verdict::kMismatch,
                          *check_exact(stats, "an operator that moves values"));
  const ClassLimits* row = table_.find(stats.judged_dtype);
  if (!row) return no_numbers(name_, stats.judged_dtype);
  if (!stats.detail) return detail_missing();
  const Limits& limits = pick(*row, op);
  const double spacing = spacing_factor(stats);
  const double own_norm = limits.norm * spacing;
  const double norm_bound = std::max(own_norm, noise_factor_ * noise);

  Judgement judgement;
  const auto add = [&](std::optional<Reason> reason) {
    if (reason) judgement.reasons.push_back(*std::move(reason));
  };
  add(check_elements(stats, limits, norm_bound / own_norm, noise));
  const bool usable = sums_usable(stats);
  if (usable) {
    // One value has no norm of its own: its element bound has just judged it.
    if (stats.finite > 1) add(check_norm_l2(stats, norm_bound));
    const double coherent = limits.coherent * spacing;
    if (golden_amax(stats) > 0) add(check_alpha(stats, coherent, noise));
    add(check_bias(stats, coherent, noise));
  }
  if (!judgement.reasons.empty()) {
    judgement.verdict = Verdict::kMismatch;
    return judgement;
  }
  if (!usable) return sums_unusable(stats);
  return make_judgement(Verdict::kMatch, margin(stats, norm_bound));
}

// Statistics are reductions in the tensor's own dtype, so two roundings come
// on top of what the elements may do.
std::optional<StatisticsBounds> Layered::statistics_bounds(DType dtype,
                                                           OpClass op) const {
  const ClassLimits* row = table_.find(dtype);
  if (!row) return std::nullopt;
  const double u = unit_roundoff(component(dtype));
  const bool moved = op == OpClass::kMovement;
  const Limits& limits = moved ? row->reduction : pick(*row, op);
  StatisticsBounds bounds;
  if (!moved) {
    bounds.extreme = 2 * limits.ulps * u + limits.rtol;
    bounds.extreme_rms = limits.rms;
  }
  bounds.norm = limits.norm + 2 * u;
  bounds.mean = limits.norm + 2 * u;
  return bounds;
}

}  // namespace

StandardPtr make_layered(const ConfigNode& node) {
  return std::make_shared<Layered>(node);
}

}  // namespace assay
