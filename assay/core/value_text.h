// A value of a tensor as text.
#pragma once

#include <string>

#include "assay/core/dtype.h"

namespace assay {

// The shortest text that tells `value` from every other value of `dtype`:
// float32 0.1 is "0.1", float64 0.10000000149011612 is not. Narrower floats
// are written like float32, complex dtypes by component.
std::string value_text(DType dtype, double value);

}  // namespace assay
