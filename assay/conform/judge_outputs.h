// The tensors of a case: every rank's, the ranks merged, and the second run.
#pragma once

#include <vector>

#include "assay/conform/outcome.h"
#include "assay/conform/run_result.h"
#include "assay/conform/spec.h"

namespace assay::conform {

// Every output that the spec declares for the case, on every rank, against the
// golden and against the declared shape and dtype; then every output that it
// does not declare. Throws Error{kUsage} for what is wrong with the spec.
std::vector<Check> judge_outputs(const Spec& spec, const Case& c,
                                 const Outcome& golden, const Outcome& target);

// "again.<name>" for every output whose bytes a second run did not repeat, and
// one "again" that matches where all did.
std::vector<Check> judge_repetition(const Outcome& first,
                                    const Outcome& second);

// Names of an output in a case: itself, or one for each step.
std::vector<std::string> names_of(const Output& output, const Case& c);

}  // namespace assay::conform
