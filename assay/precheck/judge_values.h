// Results of a replayed call that are no tensors.
#pragma once

#include <vector>

#include "assay/precheck/judge_call.h"

namespace assay::precheck {

// A row for each that the trace has or that a side gives. Exact, but for
// floats, which are judged in the dtype of the first argument that has one.
// What tells a dtype is held against the trace instead of the golden.
std::vector<JudgedRow> judge_values(const CallTask& task);

}  // namespace assay::precheck
