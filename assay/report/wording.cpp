#include "assay/report/wording.h"

namespace assay {

const Wording& wording(Subject subject) {
  static constexpr Wording kTraces{"comparison report", "golden", "target",
                                   "record", "first divergence"};
  static constexpr Wording kCalls{
      "API pre-check",  "golden", "device", "result",
      "first mismatch", false,    "call",   "assay precheck run"};
  static constexpr Wording kDevices{
      "two devices",    "reference", "device", "output",
      "first mismatch", false,       "",       "assay precheck compare"};
  static constexpr Wording kPerturbed{
      "perturbation check", "golden", "target", "output",
      "first unsteady",     false,    "call",   "assay fuzz"};
  static constexpr Wording kSettings{
      "environments",     "golden", "target", "setting",
      "first to look at", false,    "",       "assay env diff"};
  switch (subject) {
    case Subject::kCalls:
      return kCalls;
    case Subject::kDevices:
      return kDevices;
    case Subject::kPerturbed:
      return kPerturbed;
    case Subject::kSettings:
      return kSettings;
    case Subject::kTraces:
      break;
  }
  return kTraces;
}

std::string missing_text(const Row& row, const Wording& words) {
  if (row.golden.present && row.target.present) return "";
  return "missing in the " +
         std::string(row.golden.present ? words.target : words.golden);
}

}  // namespace assay
