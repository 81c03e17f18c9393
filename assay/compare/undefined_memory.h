// Records whose values mean nothing, because nothing has written them yet.
#pragma once

#include "assay/trace/trace.h"

namespace assay {

// True for the output of torch.empty and its kin, for the tensors handed to a
// call as `out=`, for what copy_, normal_, the functions of torch.nn.init and
// the like write wholly, before they do, and for those handed to a
// communication call only to receive its result (the argument of recv, the
// output lists of all_gather, what broadcast overwrites). Dumps record them,
// and their garbage differs from run to run.
bool is_undefined_memory(const Trace& trace, const Op& op,
                         const Record& record);

}  // namespace assay
