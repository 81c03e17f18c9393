// What several reports say about a conformance run: its words, its worst
// figure, the command that repeats a case alone.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "assay/conform/run_result.h"

namespace assay::conform {

// The check that a module is remembered by: of the comparisons of elements the
// one with the largest relative L2 error, mismatches before matches. Both null
// where no elements were compared.
struct WorstCheck {
  const CaseResult* subject = nullptr;
  const Check* check = nullptr;
};
WorstCheck worst_check(const ModuleResult& module);
const Check* worst_check(const CaseResult& result);

// Sums of the times and maxima of the memory that its cases took.
struct Cost {
  double golden_seconds = 0, seconds = 0;
  std::int64_t golden_peak_bytes = 0, peak_bytes = 0;
  double slower = 0;  // the largest ratio to the baseline, 0 without one
};
Cost cost(const ModuleResult& module);

// The command of the run for one case alone: "... --only 'linear/small-3f09'".
std::string again(const RunResult& run, const CaseResult& result);

// Why it is no match, one line: its message, or the first check that decided.
std::string why(const CaseResult& result);

// Its message, "" where one of its checks says the same.
std::string own_message(const CaseResult& result);

// "bias=true dtype=bfloat16", strings without quotes.
std::string parameters_text(const Parameters& parameters);

// "torch 2.13.0, cpu".
std::string side_text(const Side& side);

// Cases by how they ended.
std::map<Ending, std::int64_t> endings(const RunResult& run);
// Why cases are incomplete: "9 unsupported, 3 stale goldens, 2 crashed"; ""
// where none is.
std::string incomplete_text(const RunResult& run);
// "stale golden", "crashed", "not run": to be read.
std::string_view ending_text(Ending ending);
// Endings of which one line for all cases says enough: nothing of the target
// was at fault, or all of them lack the same.
bool tells_little(Ending ending);

// "all 8 cases agree", "3 of 8 cases differ", "nothing was compared".
std::string verdict_sentence(const RunResult& run);

// Cases that have something to compare: all but the empty ones, which are
// evidence neither for nor against. What could not be compared is among them.
std::int64_t tested(const Tally& tally);
// Share of those that match. 0 where there is none.
double pass_rate(const Tally& tally);
// "97.5 %": rounded down, so that 100 % means every one.
std::string percent_text(double share);

// The API names that the modules of the run guard, sorted, each once.
std::vector<std::string> guarded_api(const RunResult& run);

}  // namespace assay::conform
