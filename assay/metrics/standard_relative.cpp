// Mean and max relative error (MERE, MARE) below a bound per dtype.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"
#include "assay/metrics/standard_kinds.h"

namespace assay {
namespace {

// The standard divides by |g| + 1e-7, the measured figure by max(|g|, 1e-7):
// at most a factor two stricter, next to zero.
constexpr double kFloor = 1e-7;

double read_mean(const ConfigNode& node) { return node.number(); }

class RelativeStandard final : public StandardBase {
 public:
  explicit RelativeStandard(const ConfigNode& node)
      : StandardBase(node, {"dtypes", "max_over_mean"}),
        table_(node.at("dtypes"), read_mean),
        max_over_mean_(node.at("max_over_mean").number()) {}

 protected:
  std::optional<DetailRequest> request_for_values(const ErrorStats& stats,
                                                  OpClass) const override {
    const double* mean = table_.find(stats.judged_dtype);
    if (!mean) return std::nullopt;
    DetailRequest request;
    request.bound = {0, max_over_mean_ * *mean, 0};
    // Only golden zeros are "small": their error is over the floor alone.
    request.small = {std::numeric_limits<double>::denorm_min(),
                     max_over_mean_ * *mean * kFloor};
    return request;
  }

  Judgement judge_values(const ErrorStats& stats, OpClass, const ErrorStats*,
                         double) const override {
    const double* mean = table_.find(stats.judged_dtype);
    if (!mean) return no_numbers(name_, stats.judged_dtype);
    if (!stats.detail) return detail_missing();
    const DetailStats& detail = *stats.detail;
    const double max = max_over_mean_ * *mean;
    const bool ok = detail.small_errors == 0 && detail.large_max_rel < max &&
                    detail.large_mean_rel < *mean;
    const std::string text = fmt::format(
        "MERE {} of {}, MARE {} of {}, {} wrong where the golden is 0",
        format_figure(detail.large_mean_rel), format_figure(*mean),
        format_figure(detail.large_max_rel), format_figure(max),
        detail.small_errors);
    if (ok) return make_judgement(Verdict::kMatch, remark("within", text));
    return make_judgement(
        Verdict::kMismatch,
        deciding("relative", text + "; largest: " + place_of_max_abs(stats),
                 detail.large_mean_rel, *mean, stats.max_rel_index));
  }

 private:
  DTypeTable<double> table_;
  double max_over_mean_;
};

}  // namespace

StandardPtr make_relative(const ConfigNode& node) {
  return std::make_shared<RelativeStandard>(node);
}

}  // namespace assay
