#include "assay/metrics/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/core/value_text.h"

namespace assay {
namespace {

// Below it the squares of fp64 lose their last places to underflow.
constexpr double kSmallestNorm = 1e-150;

std::string side_counts(const SideStats& side) {
  return fmt::format("{} NaN, {} +inf, {} -inf", side.nan, side.pos_inf,
                     side.neg_inf);
}

}  // namespace

double golden_amax(const ErrorStats& stats) {
  return std::max(std::fabs(stats.golden.min), std::fabs(stats.golden.max));
}

double golden_rms(const ErrorStats& stats) {
  const SideStats& g = stats.golden;
  const auto finite =
      static_cast<double>(stats.count - g.nan - g.pos_inf - g.neg_inf);
  if (finite <= 0 || !std::isfinite(g.l2)) return 0;
  return g.l2 / std::sqrt(finite);
}

bool sums_usable(const ErrorStats& stats) {
  if (golden_amax(stats) == 0) return true;
  return std::isfinite(stats.golden.l2) && stats.golden.l2 > kSmallestNorm;
}

Judgement make_judgement(Verdict verdict, Reason reason) {
  Judgement judgement;
  judgement.verdict = verdict;
  judgement.reasons.push_back(std::move(reason));
  return judgement;
}

Reason deciding(std::string criterion, std::string text, double figure,
                double bound, std::int64_t index) {
  return {std::move(criterion), std::move(text), figure, bound, index, false};
}

Reason remark(std::string criterion, std::string text, double figure) {
  return {std::move(criterion), std::move(text), figure, 0, -1, true};
}

std::string place_of_max_abs(const ErrorStats& stats) {
  return fmt::format("golden {}, target {} at flat index {}",
                     value_text(stats.judged_dtype, stats.golden_at_max_abs),
                     value_text(stats.judged_dtype, stats.target_at_max_abs),
                     stats.max_abs_index);
}

std::optional<Reason> check_nonfinite(const ErrorStats& stats) {
  if (stats.nonfinite_mismatches == 0) return std::nullopt;
  return deciding(
      "nonfinite",
      fmt::format("{} elements are NaN or infinite on one side only or with "
                  "another sign, first at flat index {} (golden {}; target {})",
                  stats.nonfinite_mismatches, stats.first_nonfinite_mismatch,
                  side_counts(stats.golden), side_counts(stats.target)),
      static_cast<double>(stats.nonfinite_mismatches), 0,
      stats.first_nonfinite_mismatch);
}

std::optional<Reason> check_exact(const ErrorStats& stats,
                                  const std::string& why) {
  if (stats.mismatches == 0) return std::nullopt;
  // Next to an integer's exact difference, its values as doubles may look
  // equal: show the difference.
  const std::string largest =
      is_exact(stats.judged_dtype)
          ? fmt::format("largest difference {} at flat index {}",
                        stats.max_abs_int, stats.max_abs_index)
          : "largest: " + place_of_max_abs(stats);
  return deciding("exact",
                  fmt::format("{} of {} elements differ, {} allows none; {}",
                              stats.mismatches, stats.count, why, largest),
                  static_cast<double>(stats.mismatches), 0,
                  stats.max_abs_index);
}

std::optional<Reason> check_norm_l2(const ErrorStats& stats, double bound) {
  if (stats.norm_l2 <= bound) return std::nullopt;
  const std::string text =
      golden_amax(stats) == 0
          ? fmt::format("the golden is all zero, the target is not ({})",
                        place_of_max_abs(stats))
          : fmt::format("normalised L2 error {} over {}, SQNR {} dB",
                        format_figure(stats.norm_l2), format_figure(bound),
                        format_figure(stats.sqnr_db));
  return deciding("norm_l2", text, stats.norm_l2, bound, stats.max_abs_index);
}

Judgement sums_unusable(const ErrorStats& stats) {
  return make_judgement(
      Verdict::kIncomplete,
      deciding("range",
               fmt::format("the golden's sum of squares leaves the range of "
                           "fp64 (largest value {}): its whole-tensor figures "
                           "are not known",
                           format_figure(golden_amax(stats))),
               golden_amax(stats)));
}

Judgement detail_missing() {
  return make_judgement(
      Verdict::kIncomplete,
      deciding("detail", "the element figures were not computed"));
}

Judgement no_numbers(const std::string& standard, DType dtype) {
  return make_judgement(
      Verdict::kIncomplete,
      deciding("dtype", fmt::format("standard '{}' has no numbers for {}",
                                    standard, traits(dtype).name)));
}

void add_notes(const ErrorStats& stats, Judgement& judgement) {
  std::vector<Reason>& reasons = judgement.reasons;
  if (stats.zero_sign_flips > 0)
    reasons.push_back(remark(
        "zero_sign",
        fmt::format("{} zeros differ in sign only", stats.zero_sign_flips),
        static_cast<double>(stats.zero_sign_flips)));
  const std::int64_t nonfinite =
      stats.golden.nan + stats.golden.pos_inf + stats.golden.neg_inf;
  if (nonfinite > 0 && stats.nonfinite_mismatches == 0)
    reasons.push_back(
        remark("nonfinite",
               fmt::format("not finite, and alike on both sides: {}",
                           side_counts(stats.golden)),
               static_cast<double>(nonfinite)));
  if (stats.golden_rounded)
    reasons.push_back(
        remark("golden_rounded",
               fmt::format("the golden was rounded to {} before differencing",
                           traits(stats.judged_dtype).name)));
}

}  // namespace assay
