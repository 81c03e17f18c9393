// DetailParams in the arithmetic and bit layout that the tier 2 kernels use.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "assay/kernels/kernels.h"

namespace assay {

// T is float or double. An ulp of x, and its inverse, come from the exponent
// field e of max(|x|, min_normal): ulp = bits(e + ulp_offset), 1 / ulp =
// bits(inverse_base - e). Integers: the mask leaves e = 0 and both are 1.
template <typename T>
struct DetailConstants {
  using Int = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  using Uint = std::make_unsigned_t<Int>;
  static constexpr int kMantissa = sizeof(T) == 4 ? 23 : 52;
  static constexpr int kBias = sizeof(T) == 4 ? 127 : 1023;
  // Lowest exponent of x at which 1 / ulp is still a number.
  static constexpr int kLowest = sizeof(T) == 4 ? -100 : -960;

  // The nearest numbers below the shares' limits: a > below * |x| is a >= limit
  // * |x| without a true answer for d = x = 0.
  static constexpr T kBelow1e3 =
      T(0.001) * (1 - std::numeric_limits<T>::epsilon());
  static constexpr T kBelow5e3 =
      T(0.005) * (1 - std::numeric_limits<T>::epsilon());
  // (bits(ulps) - this) >> kMantissa is ceil(log2(ulps)): the bucket.
  static constexpr Int kUlpBucket = (Int{kBias - 1} << kMantissa) + 1;

  explicit DetailConstants(const DetailParams& p)
      : atol(static_cast<T>(p.atol)),
        rtol(static_cast<T>(p.rtol)),
        ulps(static_cast<T>(p.ulps)),
        small_threshold(not_below(p.small_threshold)),
        small_bound(not_above(p.small_bound)) {
    const Uint one = std::bit_cast<Uint>(T(1));
    const Uint m = static_cast<Uint>(p.mantissa_bits) << kMantissa;
    const int lowest = std::max(p.min_exponent, kLowest);
    min_normal =
        std::bit_cast<T>(static_cast<Uint>(lowest + kBias) << kMantissa);
    if (!p.integer && p.min_exponent < kLowest) guard = min_normal;
    const Uint mask = static_cast<Uint>(2 * kBias + 1) << kMantissa;
    exponent_mask = p.integer ? 0 : static_cast<Int>(mask);
    inverse_base = static_cast<Int>(p.integer ? one : 2 * one + m);
    ulp_offset = static_cast<Int>(p.integer ? one : Uint{0} - m);
    // A maximum that T rounds up to infinity is no limit in T.
    max_finite = static_cast<T>(p.max_finite);
  }

  // The T that |x| < v and |d| > v decide by as v itself would.
  static T not_below(double v) {
    const T t = static_cast<T>(v);
    return t < v ? std::nextafter(t, std::numeric_limits<T>::infinity()) : t;
  }
  static T not_above(double v) {
    const T t = static_cast<T>(v);
    return t > v ? std::nextafter(t, -std::numeric_limits<T>::infinity()) : t;
  }

  T min_normal, max_finite;
  T guard = 0;  // |x| below this has no ulp here; 0: every x has one
  T atol, rtol, ulps, small_threshold, small_bound;
  Int exponent_mask, inverse_base, ulp_offset;
};

}  // namespace assay
