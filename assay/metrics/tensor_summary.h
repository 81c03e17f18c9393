// A tensor's own statistics, as a capture keeps them.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"

namespace assay {

// Of the finite elements, in fp64 over fixed blocks: the same bits for any
// number of threads and on every instruction set. Complex dtypes: of both
// components. Where no element is finite, min, max and mean are NaN, norm is 0.
struct TensorSummary {
  std::int64_t count = 0;  // elements; of complex ones components
  std::int64_t finite = 0;
  std::int64_t nan = 0, positive_inf = 0, negative_inf = 0;
  std::int64_t zeros = 0;
  // Elements of the largest finite magnitude, where saturates(dtype); else 0.
  std::int64_t saturated = 0;
  double min = 0, max = 0;
  double mean = 0;
  double norm = 0;  // square root of the sum of squares

  bool all_finite() const { return finite == count; }
};

// Whether values beyond the dtype's range usually end at its largest one: the
// floats of 8 bits and fewer that hold elements (not e8m0, which holds scales).
constexpr bool saturates(DType dtype) {
  return is_float(dtype) && traits(dtype).bits <= 8 && dtype != DType::kE8M0;
}

// Any dtype and strides. `parallel`: with every thread of the process; else on
// this one. Thread-safe.
TensorSummary summarise(const TensorView& tensor, bool parallel = true);

}  // namespace assay
