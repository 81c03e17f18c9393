// Compares what two sides gave for one case, and says why it is no match.
//
// Tensors are judged by judge_row() of assay/compare, one pair at a time: the
// rules of `assay compare` for shapes, dtypes, NaN, emptiness and files that
// vanish while they are read are these, with no second copy of them. Not by
// judge_pair(): it judges a whole trace by one standard and guesses operator
// classes from names, where a spec states standard and class of each output.
#pragma once

#include "assay/conform/outcome.h"
#include "assay/conform/run_result.h"
#include "assay/conform/spec.h"

namespace assay::conform {

// Fills ending, verdict, message and checks of `result`, whose subject is the
// case. `again`: the target's second run, which a deterministic spec wants;
// null without one. Throws Error{kUsage} for what is wrong with the spec.
void judge_case(const Spec& spec, const Outcome& golden, const Outcome& target,
                const Outcome* again, CaseResult& result);

}  // namespace assay::conform
