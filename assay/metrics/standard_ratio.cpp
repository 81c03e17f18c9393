// The commercial standard: each error figure of the target over the same
// figure of a baseline device, both against one golden.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"
#include "assay/metrics/standard_kinds.h"

namespace assay {
namespace {

struct Domain {
  double small = 0;        // |golden| below: judged by small_bound alone
  double small_bound = 0;  // |d| above counts as an error
  double floor = 0;        // least denominator of a relative figure's ratio
};

Domain read_domain(const ConfigNode& node) {
  node.allow_only({"small", "small_bound", "floor"});
  return {node.at("small").number(), node.at("small_bound").number(),
          node.at("floor").number()};
}

class RatioStandard final : public StandardBase {
 public:
  explicit RatioStandard(const ConfigNode& node)
      : StandardBase(node, {"dtypes", "ratios", "baseline_norm_l2"}),
        table_(node.at("dtypes"), read_domain),
        baseline_norm_l2_(node.at("baseline_norm_l2").number()) {
    const ConfigNode& ratios = node.at("ratios");
    ratios.allow_only({"max_rel", "mean_rel", "rmse", "small_errors"});
    max_rel_ = ratios.at("max_rel").number();
    mean_rel_ = ratios.at("mean_rel").number();
    rmse_ = ratios.at("rmse").number();
    small_errors_ = ratios.at("small_errors").number();
  }

 protected:
  std::optional<DetailRequest> request_for_values(const ErrorStats& stats,
                                                  OpClass) const override {
    const Domain* domain = table_.find(stats.judged_dtype);
    if (!domain) return std::nullopt;
    DetailRequest request;
    request.small = {domain->small, domain->small_bound};
    return request;
  }

  Judgement judge_values(const ErrorStats& stats, OpClass,
                         const ErrorStats* baseline, double) const override {
    const Domain* domain = table_.find(stats.judged_dtype);
    if (!domain) return no_numbers(name_, stats.judged_dtype);
    if (auto missing = baseline_unfit(stats, baseline))
      return make_judgement(Verdict::kIncomplete, *std::move(missing));
    if (!stats.detail) return detail_missing();
    static const DetailStats kEqual;  // a baseline that equals the golden
    return compare(*stats.detail, baseline->detail ? *baseline->detail : kEqual,
                   *domain, golden_rms(stats));
  }

 private:
  // Why no ratio can be formed; nullopt when it can.
  std::optional<Reason> baseline_unfit(const ErrorStats& stats,
                                       const ErrorStats* baseline) const {
    const auto unfit = [](std::string text) {
      return deciding("baseline", std::move(text));
    };
    if (!baseline)
      return unfit("the ratio rule needs a second device: give --baseline");
    if (baseline->count != stats.count)
      return unfit(fmt::format("the baseline has {} elements, expected {}",
                               baseline->count, stats.count));
    if (baseline->nonfinite_mismatches > 0)
      return unfit("the baseline is NaN or infinite where the golden is not");
    if (baseline->mismatches > 0 && !baseline->detail)
      return unfit("the baseline's element figures were not computed");
    if (!sums_usable(*baseline) || !(baseline->norm_l2 <= baseline_norm_l2_))
      return unfit(fmt::format(
          "the baseline itself is far from the golden "
          "(normalised L2 {}, at most {}): a ratio to it "
          "is no evidence",
          format_figure(baseline->norm_l2), format_figure(baseline_norm_l2_)));
    return std::nullopt;
  }

  Judgement compare(const DetailStats& target, const DetailStats& baseline,
                    const Domain& domain, double rms) const {
    Judgement judgement;
    judgement.verdict = Verdict::kMatch;
    const auto check = [&](const char* key, double figure, double reference,
                           double floor, double limit) {
      const double ratio = figure / std::max(reference, floor);
      const bool ok = figure == 0 || ratio <= limit;
      if (!ok) judgement.verdict = Verdict::kMismatch;
      Reason reason = deciding(
          key,
          fmt::format("{} {} over the baseline's {} is a ratio of {}, limit {}",
                      key, format_figure(figure), format_figure(reference),
                      format_figure(ratio), format_figure(limit)),
          ratio, limit);
      reason.note = ok;
      judgement.reasons.push_back(std::move(reason));
    };
    check("max_rel", target.large_max_rel, baseline.large_max_rel, domain.floor,
          max_rel_);
    check("mean_rel", target.large_mean_rel, baseline.large_mean_rel,
          domain.floor, mean_rel_);
    check("rmse", target.large_rmse, baseline.large_rmse, domain.floor * rms,
          rmse_);
    check("small_errors", static_cast<double>(target.small_errors),
          static_cast<double>(baseline.small_errors), 1, small_errors_);
    std::stable_partition(judgement.reasons.begin(), judgement.reasons.end(),
                          [](const Reason& r) { return !r.note; });
    return judgement;
  }

  DTypeTable<Domain> table_;
  double baseline_norm_l2_;
  double max_rel_ = 0, mean_rel_ = 0, rmse_ = 0, small_errors_ = 0;
};

}  // namespace

StandardPtr make_ratio(const ConfigNode& node) {
  return std::make_shared<RatioStandard>(node);
}

}  // namespace assay
