// The standard of two runs of one program: every bit, of every operator.
#pragma once

#include <memory>

#include "assay/metrics/standard.h"

namespace assay {

// As "exact", but what an operator drew is compared like anything else, equal
// NaN are evidence, and the payload of a NaN counts.
std::shared_ptr<const Standard> same_bits();

}  // namespace assay
