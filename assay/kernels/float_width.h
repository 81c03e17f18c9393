// Which of the three dtypes a high-precision operand has, as an index into
// kernel tables.
#pragma once

#include <cstddef>

#include "assay/core/dtype.h"

namespace assay {

inline constexpr std::size_t kFloatWidths = 3;  // f32, bf16, f16

// The dtype must be one of the three: operators have checked it.
constexpr std::size_t float_width(DType dtype) {
  if (dtype == DType::kBF16) return 1;
  return dtype == DType::kF16 ? 2 : 0;
}
inline constexpr DType kFloatWidthDTypes[kFloatWidths] = {
    DType::kF32, DType::kBF16, DType::kF16};

}  // namespace assay
