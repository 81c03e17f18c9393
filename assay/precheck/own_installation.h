// Holds a device to no more than the golden's own installation keeps.
#pragma once

#include "assay/compare/comparison.h"
#include "assay/metrics/standard.h"
#include "assay/precheck/judge_pair.h"

namespace assay::precheck {

// Whether hold_to_own() may say something: a mismatch of elements.
bool may_hold_to_own(const Row& row);

// A mismatch becomes incomplete where `own`, what the golden's installation
// gives in the given precision, leaves the standard too and the device is
//   no further off: neither the largest nor the normalised L2 error, or
//   where `own` is: it agrees with it within the standard.
// Such an operator has no yardstick on this machine; that is no match either.
// Elements that are NaN on one side and operators that move values: the second
// alone. `task`: as the row was judged. Thread-safe.
void hold_to_own(const Standard& standard, const PairTask& task,
                 const Tensor& own, Row& row);

}  // namespace assay::precheck
