// Judges a row by the elements of its two tensors.
#pragma once

#include "assay/compare/row_work.h"

namespace assay {

// Loads both tensors, and the baseline and noise runs where there are, and
// judges what they hold. Throws for what cannot be read; the row may then hold
// half a judgement. Gives the bytes compared.
RowBytes compare_elements(RowWork& work);

// For a row whose dtype settled it: measures the values all the same, as a
// note. Never throws for what a file contains. Gives the bytes compared.
RowBytes measure_values(RowWork& work);

}  // namespace assay
