// The parts of several ranks put together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/conform/run_result.h"
#include "assay/conform/spec.h"
#include "assay/core/tensor.h"

namespace assay::conform {

// Joined along the merge's dimension, or summed in fp64 in the order of the
// ranks and rounded once to the parts' dtype. Nullopt where a rank gives none.
// Throws Error{kRefused} for parts that do not fit together.
std::optional<Tensor> merged(const Merge& merge,
                             const std::vector<const Tensor*>& parts);

// Every rank's bytes are those of rank 0.
Check judge_same(const std::string& name,
                 const std::vector<const Tensor*>& parts);

}  // namespace assay::conform
