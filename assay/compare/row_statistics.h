// Judges a row by what the dump says of its tensors: statistics, checksums,
// further attributes.
#pragma once

#include "assay/compare/row_work.h"

namespace assay {

// The best evidence short of elements that both sides have. A row without any
// is incomplete.
void judge_without_elements(RowWork& work);

// For a tensor that cannot be read, which is incomplete: a mismatch after all
// where the statistics are enough to know that it differs.
void escalate(RowWork& work);

}  // namespace assay
