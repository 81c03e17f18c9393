// From an error or a verdict to the process's exit code, in one place.
#pragma once

#include "assay/base/error.h"
#include "assay/metrics/verdict.h"

namespace assay {

constexpr int exit_code(Code code) {
  switch (code) {
    case Code::kUsage:
      return kExitUsage;
    case Code::kUnsupported:
      return kExitIncomplete;
    default:
      return kExitUnreadable;
  }
}

constexpr int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMatch:
      return kExitMatch;
    case Verdict::kMismatch:
      return kExitMismatch;
    default:  // nothing but empty pairs is no evidence either
      return kExitIncomplete;
  }
}

}  // namespace assay
