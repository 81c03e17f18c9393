// Units in the last place: the spacing of a dtype at a value, and distances
// measured in it.
#pragma once

#include <cstdint>
#include <limits>

#include "assay/core/dtype.h"
#include "assay/numerics/float_format.h"

namespace assay {

// Distance from |x| to the next larger magnitude of `dtype` (complex: of its
// component). At 0 and below the smallest normal it is the subnormal spacing;
// beyond the largest finite value the spacing there. Exact dtypes: 1. NaN for
// a non-finite x. At a power of two it is the wider spacing, the one above.
constexpr double ulp(DType dtype, double x) {
  if (is_exact(dtype)) return 1.0;
  if (is_nan(x) || is_inf(x)) return std::numeric_limits<double>::quiet_NaN();
  const int mantissa_bits = traits(dtype).mantissa_bits;
  const double magnitude = x < 0 ? -x : x;
  if (magnitude <= min_normal(dtype))
    return pow2(dissect(min_normal(dtype)).leading - mantissa_bits);
  const double largest = max_finite(dtype);
  const double inside = magnitude < largest ? magnitude : largest;
  return pow2(dissect(inside).leading - mantissa_bits);
}

// |target - golden| in ulps of the golden value: real-valued, so it holds for
// values that are not in the dtype. 0 for equal values, NaN when either is
// not finite and they differ.
constexpr double ulp_error(DType dtype, double golden, double target) {
  if (golden == target) return 0.0;
  if (is_nan(target) || is_inf(target))
    return std::numeric_limits<double>::quiet_NaN();
  const double d = target - golden;
  return (d < 0 ? -d : d) / ulp(dtype, golden);
}

// Steps from one code of a float dtype to another along its values: adjacent
// values are 1 apart, -0 and +0 are 0 apart, the infinity one step beyond the
// largest finite value. Not for NaN codes: the caller has counted those.
constexpr std::uint64_t code_distance(DType dtype, std::uint64_t a,
                                      std::uint64_t b) {
  const std::uint64_t ma = a & magnitude_mask(dtype);
  const std::uint64_t mb = b & magnitude_mask(dtype);
  if ((a & sign_mask(dtype)) != (b & sign_mask(dtype))) return ma + mb;
  return ma > mb ? ma - mb : mb - ma;
}

}  // namespace assay
