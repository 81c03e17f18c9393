// Synthetic comparisons for the report tests and the browser test.
#pragma once

#include <cstddef>

#include "assay/compare/comparison.h"

namespace assay {

// A small training step of two ranks with one born GELU mismatch, rows that
// inherit it, one incomplete and one empty row. Every number is written down
// in sample.cpp.
Comparison gelu_sample();

// `rows` rows in operators of six, from a fixed pseudo-random sequence: mostly
// matches, some mismatches with figures and histograms, some incomplete rows.
// One tensor is named as an attack on the page: kHostileName.
Comparison large_sample(std::size_t rows);
inline constexpr const char* kHostileName =
    "<img src=x "
    "onerror=alert(1)></script><script>alert(2)</script>\xE2\x80\xA8";

// As large_sample, with nothing but statistics, as msprobe's statistics task
// leaves them: what the speed of the writers is measured on.
Comparison statistics_sample(std::size_t rows);

}  // namespace assay
