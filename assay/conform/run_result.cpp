#include "assay/conform/run_result.h"

#include <algorithm>

namespace assay::conform {
namespace {

// Only what was compared can match, whatever else a record claims.
Verdict counted(const CaseResult& result) {
  if (result.verdict == Verdict::kMatch && result.ending != Ending::kCompared)
    return Verdict::kIncomplete;
  return result.verdict;
}

void count(Verdict verdict, Tally& tally) {
  switch (verdict) {
    case Verdict::kMatch:
      ++tally.match;
      return;
    case Verdict::kMismatch:
      ++tally.mismatch;
      return;
    case Verdict::kIncomplete:
      ++tally.incomplete;
      return;
    case Verdict::kEmpty:
      ++tally.empty;
  }
}

Verdict worst(const Tally& tally) {
  if (tally.mismatch > 0) return Verdict::kMismatch;
  if (tally.incomplete > 0 || tally.match == 0) return Verdict::kIncomplete;
  return Verdict::kMatch;
}

}  // namespace

std::string_view to_string(Ending ending) {
  switch (ending) {
    case Ending::kCompared:
      return "compared";
    case Ending::kRefused:
      return "refused";
    case Ending::kFailed:
      return "failed";
    case Ending::kUnsupported:
      return "unsupported";
    case Ending::kCrashed:
      return "crashed";
    case Ending::kTimeout:
      return "timeout";
    case Ending::kMemory:
      return "memory";
    case Ending::kGarbage:
      return "garbage";
    case Ending::kStale:
      return "stale";
    case Ending::kMissing:
      return "missing";
    case Ending::kNotRun:
      return "not_run";
  }
  return "?";
}

Tally tally(const ModuleResult& module) {
  Tally result;
  for (const CaseResult& c : module.cases) count(counted(c), result);
  return result;
}

Tally tally(const RunResult& run) {
  Tally result;
  for (const ModuleResult& module : run.modules) {
    const Tally part = tally(module);
    result.match += part.match;
    result.mismatch += part.mismatch;
    result.incomplete += part.incomplete;
    result.empty += part.empty;
  }
  return result;
}

void conclude(ModuleResult& module) { module.verdict = worst(tally(module)); }

void conclude(RunResult& run) {
  run.verdict = worst(tally(run));
  for (ModuleResult& module : run.modules) {
    conclude(module);
    // A module without a single case was asked for and not answered.
    if (run.verdict == Verdict::kMatch && module.verdict != Verdict::kMatch)
      run.verdict = Verdict::kIncomplete;
  }
  if (run.verdict == Verdict::kMatch && run.interrupted)
    run.verdict = Verdict::kIncomplete;
}

}  // namespace assay::conform
