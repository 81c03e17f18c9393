// Counts the rows of a comparison and draws the verdict from them.
#pragma once

#include "assay/compare/comparison.h"

namespace assay {

// Sets counts and verdict: mismatch before incomplete before match. Without a
// row that matches, or where not one tensor row does although there are some,
// there is no evidence: incomplete.
void summarise(Comparison& result);

}  // namespace assay
