#include "assay/conform/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "assay/conform/judge_contract.h"
#include "assay/conform/judge_outputs.h"
#include "assay/conform/judge_tensor.h"
#include "assay/conform/value_shown.h"
#include "assay/metrics/judgement.h"

namespace assay::conform {
namespace {

void conclude(CaseResult& result, Ending ending, Verdict verdict,
              std::string message) {
  result.ending = ending;
  result.verdict = verdict;
  result.message = std::move(message);
}

std::string shown(const Outcome& side) {
  return fmt::format("{}: {}", one_line(side.error), one_line(side.message));
}

// Where a side lacks it or fails by itself, nothing is said about the port.
bool settled_by_failure(const Outcome& golden, const Outcome& target,
                        CaseResult& result) {
  if (target.unsupported()) {
    conclude(result, Ending::kUnsupported, Verdict::kIncomplete,
             "the target lacks it: " + one_line(target.message));
  } else if (golden.unsupported()) {
    conclude(result, Ending::kUnsupported, Verdict::kIncomplete,
             "the golden lacks it: " + one_line(golden.message));
  } else if (!target.ok() && !target.refused()) {
    conclude(result, Ending::kFailed, Verdict::kMismatch,
             "the target failed: " + shown(target));
  } else if (!golden.ok() && !golden.refused()) {
    conclude(result, Ending::kFailed, Verdict::kIncomplete,
             "the golden failed: " + shown(golden));
  } else {
    return false;
  }
  return true;
}

void judge_refusals(const Outcome& golden, const Outcome& target,
                    CaseResult& result) {
  const bool invalid = result.subject.invalid;
  if (golden.refused() && target.refused()) {
    if (invalid)
      return conclude(result, Ending::kCompared, Verdict::kMatch,
                      "refused by both sides, as it must be");
    return conclude(result, Ending::kRefused, Verdict::kIncomplete,
                    fmt::format("both sides refuse what the spec says is "
                                "valid; the target: {}",
                                shown(target)));
  }
  const Outcome& refuser = golden.refused() ? golden : target;
  conclude(result, Ending::kRefused, Verdict::kMismatch,
           fmt::format("the {} refuses what the {} computed: {}",
                       golden.refused() ? "golden" : "target",
                       golden.refused() ? "target" : "golden", shown(refuser)));
}

// The contract and the second run are no evidence of numbers: where every
// output is empty the case is.
void conclude_checks(CaseResult& result, std::size_t outputs) {
  result.ending = Ending::kCompared;
  result.verdict = outputs == 0 ? Verdict::kIncomplete : Verdict::kEmpty;
  if (outputs == 0) result.message = "no output was compared";
  const Check* worst = nullptr;
  for (std::size_t i = 0; i < result.checks.size(); ++i) {
    const Check& check = result.checks[i];
    if (i >= outputs && check.verdict == Verdict::kMatch) continue;
    if (severity(check.verdict) <= severity(result.verdict)) continue;
    result.verdict = check.verdict;
    worst = &check;
  }
  if (!worst || result.verdict == Verdict::kMatch) return;
  result.message = worst->rank > 0
                       ? fmt::format("{} (rank {}): {}", worst->name,
                                     worst->rank, worst->text)
                       : fmt::format("{}: {}", worst->name, worst->text);
}

void append(std::vector<Check> more, std::vector<Check>& checks) {
  std::move(more.begin(), more.end(), std::back_inserter(checks));
}

}  // namespace

void judge_case(const Spec& spec, const Outcome& golden, const Outcome& target,
                const Outcome* again, CaseResult& result) {
  if (settled_by_failure(golden, target, result)) return;
  if (!golden.ok() || !target.ok())
    return judge_refusals(golden, target, result);
  if (result.subject.invalid)
    return conclude(result, Ending::kRefused, Verdict::kMismatch,
                    "both sides compute what every implementation must "
                    "refuse");
  append(judge_outputs(spec, result.subject, golden, target), result.checks);
  const std::size_t outputs = result.checks.size();
  append(judge_contract(spec.contract, golden.contract, target.contract),
         result.checks);
  if (spec.deterministic && !golden.repeats)
    result.checks.push_back(
        make_check("again.golden", 0, Verdict::kIncomplete, "deterministic",
                   "two runs of the golden gave other bytes: no yardstick"));
  if (again) append(judge_repetition(target, *again), result.checks);
  conclude_checks(result, outputs);
}

}  // namespace assay::conform
