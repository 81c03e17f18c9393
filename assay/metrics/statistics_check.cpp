// Judging a row of which only max, min, mean and norm were kept.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"

namespace assay {
namespace {

struct Field {
  const char* name;
  std::optional<double> golden, target;
  bool both() const { return golden && target; }
  bool equal() const {
    return both() &&
           (*golden == *target || (std::isnan(*golden) && std::isnan(*target)));
  }
  bool finite() const {
    return both() && std::isfinite(*golden) && std::isfinite(*target);
  }
};

using Fields = std::array<Field, 4>;

Fields make_fields(const TensorStatistics& golden,
                   const TensorStatistics& target) {
  return {{{"max", golden.max, target.max},
           {"min", golden.min, target.min},
           {"mean", golden.mean, target.mean},
           {"norm", golden.norm, target.norm}}};
}

// NaN, +inf, -inf or a number.
int kind_of(double value) {
  if (std::isnan(value)) return 1;
  if (std::isinf(value)) return value > 0 ? 2 : 3;
  return 0;
}

Judgement incomplete(std::string text) {
  return make_judgement(Verdict::kIncomplete,
                        deciding("statistics", std::move(text)));
}

// Missing on one side only, on both, or of another kind.
std::optional<Judgement> check_presence(const Fields& fields) {
  bool any = false;
  for (const Field& f : fields) {
    if (f.golden.has_value() != f.target.has_value())
      return incomplete(fmt::format("{} was kept on one side only", f.name));
    any = any || f.both();
  }
  if (!any) return incomplete("no statistics were kept");
  for (const Field& f : fields)
    if (f.both() && kind_of(*f.golden) != kind_of(*f.target))
      return make_judgement(
          Verdict::kMismatch,
          deciding(
              "nonfinite",
              fmt::format("{} differs in kind: golden {}, target {}", f.name,
                          format_double(*f.golden), format_double(*f.target))));
  return std::nullopt;
}

// What the remaining figures of a float tensor cannot carry.
std::optional<Judgement> check_evidence(const Fields& fields, bool exact) {
  const Field& norm = fields[3];
  // Equal extremes are every element where the two are one value.
  const bool constant = exact && fields[0].both() && fields[1].both() &&
                        *fields[0].golden == *fields[1].golden;
  if (constant || (exact && norm.both())) return std::nullopt;
  // Extremes that differ settle it all the same.
  if (exact && !(fields[0].equal() && fields[1].equal())) return std::nullopt;
  if (!norm.both())
    return incomplete(
        "no norm was kept: max, min and mean alone say nothing "
        "of most elements");
  if (!norm.finite())
    return incomplete(
        fmt::format("no finite evidence: the norm is {} on both "
                    "sides",
                    format_double(*norm.golden)));
  return std::nullopt;
}

// What a difference in each field may be, in the order of Fields.
std::array<double, 4> allowed(const Fields& fields, const StatisticsBounds& b,
                              double count) {
  const double norm = fields[3].finite() ? *fields[3].golden : 0;
  const double rms = norm / std::sqrt(count);
  const auto extreme = [&](const Field& f) {
    return f.finite() ? b.extreme * std::fabs(*f.golden) + b.extreme_rms * rms
                      : 0;
  };
  return {extreme(fields[0]), extreme(fields[1]), b.mean * rms, b.norm * norm};
}

// A mean is judged against norm / sqrt(N): against itself, a mean near zero
// would fail on any rounding.
std::optional<Reason> check_field(const Field& field, double bound) {
  if (!field.both() || field.equal()) return std::nullopt;
  const double difference = std::fabs(*field.target - *field.golden);
  if (difference <= bound) return std::nullopt;
  return deciding(
      field.name,
      fmt::format("{} differs by {}, bound {}: golden {}, target "
                  "{}",
                  field.name, format_figure(difference), format_figure(bound),
                  format_double(*field.golden), format_double(*field.target)),
      difference, bound);
}

constexpr const char* kBlind =
    "from statistics only: a permutation, swapped signs or single wrong "
    "elements would not show";

}  // namespace

Judgement StandardBase::judge_statistics(const TensorStatistics& golden,
                                         const TensorStatistics& target,
                                         const SideFacts& golden_facts,
                                         OpClass op) const {
  const std::optional<std::int64_t> count = checked_numel(golden_facts.shape);
  if (!count) return incomplete("the shape is not valid");
  if (*count == 0)
    return make_judgement(Verdict::kEmpty,
                          remark("empty", "0 elements: equal, no evidence"));
  if (!golden_facts.dtype) return incomplete("the dtype is not known");
  const Fields fields = make_fields(golden, target);
  if (auto settled = check_presence(fields)) return *std::move(settled);
  const bool exact = is_exact(*golden_facts.dtype);
  if (auto settled = check_evidence(fields, exact)) return *std::move(settled);
  const bool equal =
      std::all_of(fields.begin(), fields.end(),
                  [](const Field& f) { return !f.both() || f.equal(); });
  if (op == OpClass::kRandom && !equal)
    return incomplete(
        "the operator draws random numbers: statistics are not "
        "comparable");
  // Extremes of integers are exact; their mean and norm are fp32 reductions.
  const std::optional<StatisticsBounds> bounds =
      exact ? StatisticsBounds{0, 0, 1e-6, 1e-6}
            : statistics_bounds(*golden_facts.dtype, op);
  if (!bounds)
    return incomplete(
        fmt::format("standard '{}' does not judge statistics "
                    "of {}",
                    name_, traits(*golden_facts.dtype).name));
  const std::array<double, 4> limits =
      allowed(fields, *bounds, static_cast<double>(*count));
  Judgement judgement;
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (auto reason = check_field(fields[i], limits[i]))
      judgement.reasons.push_back(*std::move(reason));
  judgement.verdict =
      judgement.reasons.empty() ? Verdict::kMatch : Verdict::kMismatch;
  if (judgement.verdict == Verdict::kMatch)
    judgement.reasons.push_back(remark("statistics_only", kBlind));
  return judgement;
}

}  // namespace assay
