// |d| <= atol + rtol |g| (numpy, torch), or either of the two alone
// (Polygraphy), for at least a given share of the elements.
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

struct Tolerance {
  double rtol = 0;
  double atol = 0;
  // Of the elements a share < 1 leaves over: within `max_abs` or `max_ulps`.
  double max_abs = std::numeric_limits<double>::infinity();
  double max_ulps = 0;
};

Tolerance read_tolerance(const ConfigNode& node) {
  node.allow_only({"rtol", "atol", "max_abs", "max_ulps"});
  Tolerance t;
  t.rtol = node.at("rtol").number();
  t.atol = node.at("atol").number();
  t.max_abs = node.number_or("max_abs", t.max_abs);
  t.max_ulps = node.number_or("max_ulps", 0);
  return t;
}

class ToleranceStandard final : public StandardBase {
 public:
  explicit ToleranceStandard(const ConfigNode& node)
      : StandardBase(node, {"dtypes", "combine", "share"}),
        table_(node.at("dtypes"), read_tolerance),
        either_(node.at("combine").one_of({"sum", "either"}) == 1),
        share_(node.at("share").number()) {
    if (share_ <= 0 || share_ > 1)
      node.at("share").fail("expected a share in (0, 1]");
    if (either_ && share_ < 1)
      node.at("share").fail("'combine: either' needs share: 1");
    for (const auto& [key, row] : node.at("dtypes").entries())
      if (either_ &&
          (row.at("rtol").number() == 0 || row.at("atol").number() == 0))
        row.fail("'combine: either' needs rtol and atol above 0");
  }

 protected:
  std::optional<DetailRequest> request_for_values(const ErrorStats& stats,
                                                  OpClass) const override {
    const Tolerance* t = table_.find(stats.judged_dtype);
    if (!t) return std::nullopt;
    DetailRequest request;
    request.bound = {t->atol, t->rtol, 0};
    // max(atol, rtol |g|) is atol below |g| = atol / rtol and rtol |g| above.
    if (either_) request.small = {t->atol / t->rtol, t->atol};
    return request;
  }

  Judgement judge_values(const ErrorStats& stats, OpClass, const ErrorStats*,
                         double) const override {
    const Tolerance* t = table_.find(stats.judged_dtype);
    if (!t) return no_numbers(name_, stats.judged_dtype);
    if (!stats.detail) return detail_missing();
    std::optional<Reason> reason =
        either_ ? check_either(stats, *t) : check_share(stats);
    if (!reason) reason = check_limit(stats, *t);
    if (reason) return make_judgement(Verdict::kMismatch, *std::move(reason));
    return make_judgement(
        Verdict::kMatch,
        remark("within", fmt::format("{} of {} elements over the tolerance, "
                                     "max abs {}",
                                     over(stats, *t), stats.finite,
                                     format_figure(stats.max_abs))));
  }

 private:
  std::int64_t over(const ErrorStats& stats, const Tolerance&) const {
    return either_ ? stats.detail->small_errors : stats.detail->over_bound;
  }

  std::optional<Reason> check_share(const ErrorStats& stats) const {
    const DetailStats& detail = *stats.detail;
    const auto matched = static_cast<double>(stats.finite - detail.over_bound);
    const double share = matched / static_cast<double>(stats.finite);
    if (share >= share_) return std::nullopt;
    return deciding(
        "tolerance",
        fmt::format("{} of {} elements over the tolerance, worst {} times "
                    "over at flat index {}; largest: {}",
                    detail.over_bound, stats.finite,
                    format_figure(detail.worst_excess),
                    detail.worst_excess_index, place_of_max_abs(stats)),
        share, share_, detail.worst_excess_index);
  }

  std::optional<Reason> check_either(const ErrorStats& stats,
                                     const Tolerance& t) const {
    const DetailStats& detail = *stats.detail;
    if (detail.small_errors == 0 && detail.large_max_rel <= t.rtol)
      return std::nullopt;
    return deciding(
        "tolerance",
        fmt::format("absolute error over {} and relative error over {}: {} "
                    "small values; elsewhere the largest relative error is "
                    "{}; largest: {}",
                    format_figure(t.atol), format_figure(t.rtol),
                    detail.small_errors, format_figure(detail.large_max_rel),
                    place_of_max_abs(stats)),
        detail.large_max_rel, t.rtol, stats.max_abs_index);
  }

  static std::optional<Reason> check_limit(const ErrorStats& stats,
                                           const Tolerance& t) {
    if (stats.max_abs <= t.max_abs) return std::nullopt;
    if (t.max_ulps > 0 && stats.detail->ulp_max <= t.max_ulps)
      return std::nullopt;
    return deciding(
        "max_abs",
        fmt::format("max abs error {} over {} and over {} ulp; {}",
                    format_figure(stats.max_abs), format_figure(t.max_abs),
                    t.max_ulps, place_of_max_abs(stats)),
        stats.max_abs, t.max_abs, stats.max_abs_index);
  }

  DTypeTable<Tolerance> table_;
  bool either_;
  double share_;
};

}  // namespace

StandardPtr make_tolerance(const ConfigNode& node) {
  return std::make_shared<ToleranceStandard>(node);
}

}  // namespace assay
