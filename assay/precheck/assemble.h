// Puts the rows of replayed calls together: a comparison like any other.
#pragma once

#include <string>
#include <vector>

#include "assay/precheck/call_journal.h"
#include "assay/precheck/plan.h"
#include "assay/precheck/run.h"

namespace assay::precheck {

// `results`: of every planned call; one without rows was not reached. Fills
// `calls`, `details`, `chosen`, `apis` and everything of the comparison but
// what says who ran and how long it took.
void assemble(const Plan& plan, std::vector<JournalEntry> results,
              RunResult& result);

}  // namespace assay::precheck
