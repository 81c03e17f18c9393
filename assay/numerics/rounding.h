// Rounding a double to a value of any dtype.
#pragma once

#include <cstdint>
#include <limits>

#include "assay/core/dtype.h"
#include "assay/numerics/float_format.h"

namespace assay {

// Nearest integer, ties to even, exact for every double.
constexpr double round_even(double x) {
  constexpr double kShift = 0x1p52;  // from here on doubles are integers
  if (!(x > -kShift && x < kShift)) return x;
  if (x == 0) return x;
  return x > 0 ? (x + kShift) - kShift : (x - kShift) + kShift;
}

// Smallest and largest value of an integer dtype or bool, as doubles. The
// largest of int64 and uint64 is not a double: it is given as 2^63 and 2^64.
constexpr double int_min(DType dtype) {
  return traits(dtype).kind == DTypeKind::kInt ? -pow2(traits(dtype).bits - 1)
                                               : 0.0;
}
constexpr double int_max(DType dtype) {
  const DTypeTraits& t = traits(dtype);
  if (t.kind == DTypeKind::kBool) return 1.0;
  const double past = pow2(t.kind == DTypeKind::kInt ? t.bits - 1 : t.bits);
  return t.bits == 64 ? past : past - 1.0;
}

// `x` rounded to the nearest value of `dtype`, ties to even, and back. Floats
// as encode_float; complex: as a component. Integers saturate and NaN is 0;
// bool: x != 0 (NaN is true, as C and numpy have it).
constexpr double round_to(DType dtype, double x, Overflow overflow) {
  if (!is_exact(dtype)) {
    const DType part = component(dtype);
    return decode_float(part, encode_float(part, x, overflow));
  }
  if (traits(dtype).kind == DTypeKind::kBool) return x != 0 ? 1.0 : 0.0;
  if (is_nan(x)) return 0.0;
  const double rounded = round_even(x);
  if (rounded < int_min(dtype)) return int_min(dtype);
  return rounded > int_max(dtype) ? int_max(dtype) : rounded;
}

constexpr double round_to(DType dtype, double x) {
  return round_to(dtype, x, default_overflow(component(dtype)));
}

}  // namespace assay
