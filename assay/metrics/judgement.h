// What everything that judges needs: which of two verdicts is worse, and a
// reason without a figure.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "assay/metrics/verdict.h"

namespace assay {

// The larger, the worse: the worst row decides about a whole.
constexpr int severity(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMismatch:
      return 3;
    case Verdict::kIncomplete:
      return 2;
    case Verdict::kMatch:
      return 1;
    case Verdict::kEmpty:
      return 0;
  }
  return 2;
}

constexpr Verdict worse(Verdict a, Verdict b) {
  return severity(a) >= severity(b) ? a : b;
}

inline Reason make_reason(std::string_view criterion, std::string text,
                          bool note = false) {
  Reason reason;
  reason.criterion = criterion;
  reason.text = std::move(text);
  reason.note = note;
  return reason;
}

}  // namespace assay
