// Names of the verdicts, as every report spells them.
#include "assay/metrics/verdict.h"

namespace assay {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return "match";
    case Verdict::kMismatch:
      return "mismatch";
    case Verdict::kEmpty:
      return "empty";
    case Verdict::kIncomplete:
      break;
  }
  return "incomplete";
}

}  // namespace assay
