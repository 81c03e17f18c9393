// What it means that two runs of a call on the device differ.
#pragma once

#include "assay/precheck/judge_pair.h"

namespace assay::precheck {

// `judged`: the row of `task`, from the first run; `again`: what another run
// gave of it, null where the device only says that it was something else.
// Where torch says that the operator may not repeat, the other run is held to
// the golden as the first was, and the row says how far apart they are. Where
// it does not, or where the row is exact, two results cannot both be right:
// a mismatch, criterion "repeats". Ties (selection.h) may fall either way.
void judge_repeats(const Standard& standard, const PairTask& task,
                   const Tensor* again, bool may_differ, JudgedRow& judged);

}  // namespace assay::precheck
