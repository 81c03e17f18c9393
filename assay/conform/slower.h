// Times of a run against those of an earlier one.
#pragma once

#include "assay/conform/run_result.h"

namespace assay::conform {

// Shorter computations than this say nothing: starting threads, one page fault
// more or less, decide about them.
inline constexpr double kLeastSeconds = 0.01;

// Sets CaseResult::slower, seconds over those of the same case in `baseline`,
// where both took kLeastSeconds, and warns of cases over `ratio`. The verdict
// stays: a slow result is still a right one.
void compare_times(const RunResult& baseline, double ratio, RunResult& run);

}  // namespace assay::conform
