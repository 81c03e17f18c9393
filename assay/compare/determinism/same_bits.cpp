#include "assay/compare/determinism/same_bits.h"

namespace assay {
namespace {

class SameBits : public Standard {
 public:
  SameBits() {
    name_ = exact_->name();
    source_ = exact_->source();
    date_ = exact_->date();
  }

  std::optional<Judgement> judge_contract(
      const SideFacts& golden, const SideFacts& target,
      std::vector<Reason>& notes) const override {
    return exact_->judge_contract(golden, target, notes);
  }

  std::optional<DetailRequest> detail_request(const ErrorStats& stats,
                                              OpClass) const override {
    return exact_->detail_request(stats, OpClass::kUnknown);
  }

  Judgement judge(const ErrorStats& stats, OpClass, const ErrorStats* baseline,
                  double noise) const override {
    Judgement judgement =
        exact_->judge(stats, OpClass::kUnknown, baseline, noise);
    if (judgement.verdict == Verdict::kEmpty ||
        judgement.verdict == Verdict::kMismatch) {
      return judgement;
    }
    Reason reason;
    reason.criterion = "bits";
    reason.text = stats.bitwise_equal ? "bitwise equal" : "bits differ";
    reason.note = stats.bitwise_equal;
    return {stats.bitwise_equal ? Verdict::kMatch : Verdict::kMismatch,
            {reason}};
  }

  Judgement judge_statistics(const TensorStatistics& golden,
                             const TensorStatistics& target,
                             const SideFacts& golden_facts,
                             OpClass) const override {
    return exact_->judge_statistics(golden, target, golden_facts,
                                    OpClass::kUnknown);
  }

 private:
  std::shared_ptr<const Standard> exact_ = Standard::load("exact");
};

}  // namespace

std::shared_ptr<const Standard> same_bits() {
  return std::make_shared<const SameBits>();
}

}  // namespace assay
