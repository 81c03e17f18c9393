// Finite tensors at the edge of what their dtype holds.
#pragma once

#include "assay/compare/overflow/overflow.h"
#include "assay/compare/overflow/scan.h"

namespace assay {

// Appends to `out.near` float16 and FP8 tensors whose largest magnitude is
// beyond half of the dtype's maximum and that lost nothing to saturation, to
// `out.quantised` FP8 and FP4 tensors with elements at the maximum or zeros.
// A value that several operators hand on counts once, a constant that the
// operator was given as an argument (a mask of -65504) not at all.
void find_range_notes(const Trace& trace, const Scan& scan,
                      const std::vector<Meaning>& meanings,
                      const std::vector<std::string>& only,
                      OverflowReport& out);

}  // namespace assay
