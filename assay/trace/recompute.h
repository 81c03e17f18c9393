// Activation checkpointing in a trace.
#pragma once

#include "assay/trace/trace.h"

namespace assay {

// Renames calls that activation checkpointing shifted, so that a run with it
// pairs with one without: first runs count among themselves, a recomputed
// forward becomes "{name}.recompute", its backward takes the index of the
// first run. Needs Op::parent where an API is called more than once. What
// cannot be tied keeps its name, with a warning.
void normalize_recompute(Trace& trace);

}  // namespace assay
