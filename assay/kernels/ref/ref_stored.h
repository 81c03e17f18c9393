// Stored f32, bf16 and f16 elements as doubles and back, for the plain loops.
#pragma once

#include <cstdint>

#include "assay/core/dtype.h"
#include "assay/numerics/element.h"

namespace assay::ref {

inline double load(DType dtype, const void* data, std::int64_t i) {
  return load_as_double(dtype, static_cast<const std::byte*>(data), i);
}
inline void store(DType dtype, double value, void* data, std::int64_t i) {
  store_from_double(dtype, value, static_cast<std::byte*>(data), i);
}

}  // namespace assay::ref
