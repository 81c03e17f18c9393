// Collects what the rules find of one output: the worst of it is the verdict.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/metrics/judgement.h"
#include "assay/precheck/ratio/rules.h"

namespace assay::precheck {

class RatioFindings {
 public:
  RatioFindings() { notes_.reserve(6); }

  void add(Verdict verdict, std::string_view criterion, std::string text,
           double figure = 0, double bound = 0) {
    worst_ = worse(worst_, verdict);
    Reason reason;
    reason.criterion = criterion;
    reason.text = std::move(text);
    reason.figure = figure;
    reason.bound = bound;
    reason.note = verdict == Verdict::kMatch;
    (reason.note ? notes_ : decided_of(verdict)).push_back(std::move(reason));
  }
  void note(std::string_view criterion, std::string text, double figure = 0,
            double bound = 0) {
    Reason reason{
        std::string(criterion), std::move(text), figure, bound, -1, true};
    notes_.push_back(std::move(reason));
  }
  // What msprobe says of the output, where that is something else.
  void msprobe(std::string_view says) { msprobe_ = says; }

  Judgement finish() && {
    Judgement judgement;
    judgement.verdict = worst_;
    if (worst_ == Verdict::kMatch) {
      judgement.reasons = std::move(notes_);
      return judgement;
    }
    judgement.reasons = std::move(mismatched_);
    append(judgement.reasons, incomplete_);
    if (!msprobe_.empty()) note("msprobe", "msprobe 26: " + msprobe_);
    append(judgement.reasons, notes_);
    return judgement;
  }

 private:
  static void append(std::vector<Reason>& to, std::vector<Reason>& from) {
    for (Reason& reason : from) to.push_back(std::move(reason));
  }
  std::vector<Reason>& decided_of(Verdict verdict) {
    return verdict == Verdict::kMismatch ? mismatched_ : incomplete_;
  }

  Verdict worst_ = Verdict::kMatch;
  std::vector<Reason> mismatched_, incomplete_, notes_;
  std::string msprobe_;
};

}  // namespace assay::precheck
