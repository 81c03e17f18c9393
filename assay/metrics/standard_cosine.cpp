// "Accuracy Reached or Not" of ptdbg_ascend: cosine and max abs error.
#include <fmt/format.h>

#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"
#include "assay/metrics/standard_kinds.h"

namespace assay {
namespace {

// No: cosine < low, or max abs > high, or both of the middle bounds broken.
class CosineStandard final : public StandardBase {
 public:
  explicit CosineStandard(const ConfigNode& node)
      : StandardBase(node, {"both", "alone"}) {
    const ConfigNode& both = node.at("both");
    const ConfigNode& alone = node.at("alone");
    both.allow_only({"cosine", "max_abs"});
    alone.allow_only({"cosine", "max_abs"});
    both_cosine_ = both.at("cosine").number();
    both_max_abs_ = both.at("max_abs").number();
    alone_cosine_ = alone.at("cosine").number();
    alone_max_abs_ = alone.at("max_abs").number();
  }

 protected:
  std::optional<DetailRequest> request_for_values(const ErrorStats&,
                                                  OpClass) const override {
    return std::nullopt;
  }

  Judgement judge_values(const ErrorStats& stats, OpClass, const ErrorStats*,
                         double) const override {
    const std::string text =
        fmt::format("cosine {:.6f}, max abs error {}; {}", stats.cosine,
                    format_figure(stats.max_abs), place_of_max_abs(stats));
    if (stats.count == 1) return judge_one(stats, text);
    const bool ok =
        stats.cosine >= alone_cosine_ && stats.max_abs <= alone_max_abs_ &&
        (stats.cosine >= both_cosine_ || stats.max_abs <= both_max_abs_);
    if (ok) return make_judgement(Verdict::kMatch, remark("within", text));
    return make_judgement(Verdict::kMismatch,
                          deciding("cosine", text, stats.cosine, both_cosine_,
                                   stats.max_abs_index));
  }

 private:
  // The cosine of one value is 1 whatever it is; the tool prints "None".
  Judgement judge_one(const ErrorStats& stats, const std::string& text) const {
    if (stats.max_abs > alone_max_abs_)
      return make_judgement(Verdict::kMismatch,
                            deciding("max_abs", text, stats.max_abs,
                                     alone_max_abs_, stats.max_abs_index));
    if (stats.max_abs <= both_max_abs_)
      return make_judgement(Verdict::kMatch, remark("within", text));
    return make_judgement(
        Verdict::kIncomplete,
        deciding("cosine", "one value has no cosine, and '" + name_ +
                               "' says nothing else of " + text));
  }

  double both_cosine_ = 0, both_max_abs_ = 0;
  double alone_cosine_ = 0, alone_max_abs_ = 0;
};

}  // namespace

StandardPtr make_cosine(const ConfigNode& node) {
  return std::make_shared<CosineStandard>(node);
}

}  // namespace assay
