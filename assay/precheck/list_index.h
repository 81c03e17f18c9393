// x[[0, 1]] and x[0, 1] have the same leaves in a trace.
#pragma once

#include "assay/precheck/api_call.h"

namespace assay::precheck {

// Whether the index of __getitem__ or __setitem__ was a list of whole numbers
// or bools that stands for a tensor of them, by the shape of the recorded
// result, or of the tensor that was assigned. The two never give one shape.
// False where neither fits.
bool is_list_index(const Trace& trace, const ApiCall& call);

}  // namespace assay::precheck
