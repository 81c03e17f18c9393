// The Result column of msprobe 26.x, without its false passes: where it would
// pass what is not equal, the row is a mismatch and says so.
//
// msprobe judges an output against its operator's inputs; a single row does
// not know them, so they are taken as agreeing.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"
#include "assay/metrics/standard_kinds.h"

namespace assay {
namespace {

class MsprobeStandard final : public StandardBase {
 public:
  explicit MsprobeStandard(const ConfigNode& node)
      : StandardBase(
            node, {"thousandth_error", "cosine_warning", "single_value_rel"}),
        thousandth_error_(node.at("thousandth_error").number()),
        cosine_warning_(node.at("cosine_warning").number()),
        single_value_rel_(node.at("single_value_rel").number()) {}

  bool reports_msprobe_metrics() const override { return true; }

 protected:
  std::optional<DetailRequest> request_for_values(const ErrorStats&,
                                                  OpClass) const override {
    return DetailRequest{};
  }

  Judgement judge_values(const ErrorStats& stats, OpClass, const ErrorStats*,
                         double) const override {
    if (stats.count == 1) return judge_one(stats);
    if (!stats.detail) return detail_missing();
    const double ratio = 1 - stats.detail->share_rel_over_1e3;
    const std::string text =
        fmt::format("One Thousandth Err Ratio {}, cosine {}; largest: {}",
                    format_figure(ratio), format_figure(stats.cosine),
                    place_of_max_abs(stats));
    if (!(ratio >= thousandth_error_))
      return make_judgement(
          Verdict::kMismatch,
          deciding("one_thousandth",
                   "error: " + text + " (inputs taken as agreeing)", ratio,
                   thousandth_error_, stats.max_abs_index));
    const bool warns = !(stats.cosine >= cosine_warning_);
    return make_judgement(
        Verdict::kMatch,
        remark(warns ? "warning" : "within",
               (warns ? "warning: " : "pass: ") + text, stats.cosine));
  }

  void explain(const ErrorStats& stats, Judgement& judgement) const override {
    if (judgement.verdict != Verdict::kMismatch) return;
    if (const std::string why = passes_because(stats); !why.empty())
      judgement.reasons.push_back(
          remark("msprobe", "msprobe itself says pass: " + why));
  }

 private:
  // It has no metric for one value and no rule for its max abs error.
  Judgement judge_one(const ErrorStats& stats) const {
    const std::string text =
        fmt::format("relative error {} of one value; {}",
                    format_figure(stats.max_rel), place_of_max_abs(stats));
    if (stats.max_rel < single_value_rel_)
      return make_judgement(Verdict::kMatch, remark("within", text));
    return make_judgement(
        Verdict::kMismatch,
        deciding("single_value", text, stats.max_rel, single_value_rel_, 0));
  }

  // "" where it reports an error too.
  std::string passes_because(const ErrorStats& stats) const {
    const SideStats& g = stats.golden;
    const SideStats& t = stats.target;
    if (stats.nonfinite_mismatches > 0)
      return g.nan == t.nan && g.pos_inf + g.neg_inf == t.pos_inf + t.neg_inf
                 ? "it does not look at the sign of an infinity"
                 : "";
    if (stats.count == 1) return "it calls one value unsupported";
    if (is_exact(stats.judged_dtype))
      return "it compares integers as floating point, most may differ";
    if (stats.detail &&
        1 - stats.detail->share_rel_over_1e3 >= thousandth_error_)
      return "enough elements agree to 0.1 %";
    return "";
  }

  double thousandth_error_, cosine_warning_, single_value_rel_;
};

}  // namespace

StandardPtr make_msprobe(const ConfigNode& node) {
  return std::make_shared<MsprobeStandard>(node);
}

}  // namespace assay
