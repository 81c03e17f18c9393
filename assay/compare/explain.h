// Looks again at the few rows that matter most, while their tensors can still
// be loaded.
#pragma once

#include "assay/compare/comparison.h"
#include "assay/compare/engine.h"
#include "assay/compare/localise.h"

namespace assay {

// Sets the cause of the first mismatch of the group and of up to 20 rows whose
// error was born there, and gives ULP figures to the inputs of the first few.
void explain_group(const TracePair& pair, const GroupFindings& findings,
                   Comparison& result);

}  // namespace assay
