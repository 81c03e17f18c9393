// One element as text, exact.
#pragma once

#include <string>

#include "assay/core/tensor.h"

namespace assay {

// Integers in full, floats as the shortest text that round-trips, complex as
// "1+2j". `index` is a row-major position inside the view.
std::string element_text(const TensorView& view, std::int64_t index);

}  // namespace assay
