// What a trace tells of one value without comparing it: whether it is finite,
// and how far from its dtype's limits.
#pragma once

#include <cstdint>
#include <limits>

#include "assay/trace/trace.h"

namespace assay {

struct ValueState {
  static constexpr std::int64_t kSome = -1;  // at least one, how many unknown

  bool known = false;      // whether every element is finite
  std::int64_t count = 0;  // elements
  std::int64_t nan = 0, positive_inf = 0, negative_inf = 0;
  // Of the finite elements; NaN where they are unknown or there is none.
  double max = std::numeric_limits<double>::quiet_NaN();
  double min = std::numeric_limits<double>::quiet_NaN();
  std::int64_t zeros = -1, saturated = -1;  // -1: unknown

  bool finite() const {
    return known && nan == 0 && positive_inf == 0 && negative_inf == 0;
  }
  bool not_finite() const { return known && !finite(); }
  // What a mask is made of.
  bool only_negative_inf() const {
    return negative_inf != 0 && nan == 0 && positive_inf == 0;
  }
  // Largest finite magnitude, NaN where unknown.
  double largest() const;
};

// By the record's statistics, by the counts of our captures or by msprobe's
// `is_nan`. Always known: plain values, empty tensors, and dtypes without NaN
// and infinity.
ValueState state_from_statistics(const Record& record);

// By the elements. Statistics that the dump did not keep are filled in, so
// that the value is recognised elsewhere, and so is a missing dtype. Throws
// Error where they cannot be read or are not what the dump says they are.
// `parallel`: with all threads.
ValueState state_from_elements(const Trace& trace, Record& record,
                               bool parallel);

}  // namespace assay
