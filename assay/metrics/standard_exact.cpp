// Every value equal; zeros with their sign where the data says so.
#include "assay/metrics/checks.h"
#include "assay/metrics/standard_base.h"
#include "assay/metrics/standard_kinds.h"

namespace assay {
namespace {

class ExactStandard final : public StandardBase {
 public:
  explicit ExactStandard(const ConfigNode& node) : StandardBase(node, {}) {}

 protected:
  std::optional<DetailRequest> request_for_values(const ErrorStats&,
                                                  OpClass) const override {
    return std::nullopt;
  }
  Judgement judge_values(const ErrorStats& stats, OpClass, const ErrorStats*,
                         double) const override {
    return make_judgement(Verdict::kMismatch,
                          *check_exact(stats, "'" + name_ + "'"));
  }
};

}  // namespace

StandardPtr make_exact(const ConfigNode& node) {
  return std::make_shared<ExactStandard>(node);
}

}  // namespace assay
