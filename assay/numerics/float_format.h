// Exact decode and single-rounding encode of every float dtype, driven by the
// fields of DTypeTraits: the specification every faster kernel is checked
// against.
//
// Sources: OCP 8-bit Floating Point (OFP8) 1.0; OCP Microscaling Formats (MX)
// 1.0 for e2m1 and e8m0; IEEE 754-2019 for the rest; the ONNX Cast tables
// (opset 25) for what overflows. Special values as the CUDA 13 host converters
// give them. Everything is constexpr, pure and thread-safe. A code is the
// element's bit pattern in the low bits of a 64-bit integer.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "assay/core/dtype.h"

namespace assay {

// What a value beyond the largest finite one becomes.
//   kSaturate  +-max, for infinities too
//   kSpecial   what the format has: inf (IEEE kinds), NaN (fn, fnuz, e8m0),
//              +-max where it has neither (e2m1)
enum class Overflow : std::uint8_t { kSaturate, kSpecial };

// Formats of 8 bits or fewer saturate, as low-precision libraries do; wider
// ones overflow to infinity, as IEEE 754 does.
constexpr Overflow default_overflow(DType dtype) {
  return traits(dtype).bits <= 8 ? Overflow::kSaturate : Overflow::kSpecial;
}

// 2^exponent, exact, for exponent in [-1074, 1023]. By exponent arithmetic:
// pow and exp2 are not exact on every device.
constexpr double pow2(int exponent) {
  const auto bits = exponent < -1022
                        ? std::uint64_t{1} << (exponent + 1074)
                        : static_cast<std::uint64_t>(exponent + 1023) << 52;
  return std::bit_cast<double>(bits);
}

// |x| as significand * 2^exponent with an integer significand < 2^53.
// leading = floor(log2 |x|), meaningless for zero. Finite x only.
struct Dissected {
  bool negative;
  std::uint64_t significand;
  int exponent;
  int leading;
};

constexpr Dissected dissect(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto field = static_cast<int>(bits >> 52 & 0x7ff);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  Dissected d{};
  d.negative = bits >> 63 != 0;
  d.significand = field ? fraction | std::uint64_t{1} << 52 : fraction;
  d.exponent = (field ? field : 1) - 1075;
  d.leading = d.exponent + static_cast<int>(std::bit_width(d.significand)) - 1;
  return d;
}

constexpr bool is_nan(double x) { return x != x; }
constexpr bool is_inf(double x) {
  return x == std::numeric_limits<double>::infinity() ||
         x == -std::numeric_limits<double>::infinity();
}

// The bits of one component: complex dtypes are described by their component.
constexpr int code_bits(DType dtype) { return traits(component(dtype)).bits; }
// Of a format with a sign: its sign bit. 0 for e8m0.
constexpr std::uint64_t sign_mask(DType dtype) {
  return traits(dtype).is_signed ? std::uint64_t{1} << (code_bits(dtype) - 1)
                                 : 0;
}
// All bits of a code but the sign.
constexpr std::uint64_t magnitude_mask(DType dtype) {
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - code_bits(dtype));
  return all & ~sign_mask(dtype);
}

// Code of the largest finite value.
constexpr std::uint64_t max_finite_code(DType dtype) {
  const DTypeTraits& t = traits(dtype);
  const std::uint64_t all = magnitude_mask(dtype);
  switch (t.specials) {
    case Specials::kIeee:
      return all - (std::uint64_t{1} << t.mantissa_bits);
    case Specials::kFn:
    case Specials::kScaleNan:
      return all - 1;
    default:
      return all;
  }
}

// The code a NaN is encoded as, without its sign: 0x7f for e4m3fn and e5m2,
// 0x80 for fnuz, 0xff for e8m0, the quiet NaN with an empty payload for the
// wider ones. e2m1 has no NaN: +6, code 7.
constexpr std::uint64_t nan_code(DType dtype) {
  const DTypeTraits& t = traits(dtype);
  if (t.specials == Specials::kFnuz) return sign_mask(dtype);
  if (t.specials != Specials::kIeee || t.bits <= 8)
    return magnitude_mask(dtype);
  return max_finite_code(dtype) + 1 +
         (std::uint64_t{1} << (t.mantissa_bits - 1));
}

constexpr bool is_nan_code(DType dtype, std::uint64_t code) {
  const std::uint64_t magnitude = code & magnitude_mask(dtype);
  switch (traits(dtype).specials) {
    case Specials::kIeee:
      return magnitude > max_finite_code(dtype) + 1;
    case Specials::kFnuz:
      return code == sign_mask(dtype);
    case Specials::kFn:
    case Specials::kScaleNan:
      return magnitude == magnitude_mask(dtype);
    default:
      return false;
  }
}

constexpr bool is_inf_code(DType dtype, std::uint64_t code) {
  return traits(dtype).specials == Specials::kIeee &&
         (code & magnitude_mask(dtype)) == max_finite_code(dtype) + 1;
}

// The value of one code of a float dtype (of one component of a complex one),
// exact: every format fits in a double. NaNs lose sign and payload.
constexpr double decode_float(DType dtype, std::uint64_t code) {
  const DTypeTraits& t = traits(dtype);
  if (is_nan_code(dtype, code)) return std::numeric_limits<double>::quiet_NaN();
  const double sign = code & sign_mask(dtype) ? -1.0 : 1.0;
  if (is_inf_code(dtype, code))
    return sign * std::numeric_limits<double>::infinity();
  if (t.specials == Specials::kScaleNan)
    return pow2(static_cast<int>(code) - t.bias);
  const std::uint64_t magnitude = code & magnitude_mask(dtype);
  const auto field = static_cast<int>(magnitude >> t.mantissa_bits);
  const std::uint64_t hidden = std::uint64_t{1} << t.mantissa_bits;
  const std::uint64_t fraction = magnitude & (hidden - 1);
  if (field == 0)
    return sign * static_cast<double>(fraction) *
           pow2(1 - t.bias - t.mantissa_bits);
  return sign * static_cast<double>(fraction | hidden) *
         pow2(field - t.bias - t.mantissa_bits);
}

constexpr double max_finite(DType dtype) {
  return decode_float(dtype, max_finite_code(dtype));
}
// The smallest value with a full significand; e8m0: its smallest, 2^-127.
constexpr double min_normal(DType dtype) {
  const DTypeTraits& t = traits(dtype);
  return pow2((t.specials == Specials::kScaleNan ? 0 : 1) - t.bias);
}
// The smallest positive value.
constexpr double min_positive(DType dtype) {
  return decode_float(dtype, traits(dtype).mantissa_bits ? 1 : 0);
}

namespace detail {

// significand / 2^shift, to nearest, ties to even.
constexpr std::uint64_t shift_right_even(std::uint64_t significand, int shift) {
  if (shift <= 0) return significand << -shift;
  if (shift > 54) return 0;  // below half of the last place
  const std::uint64_t kept = significand >> shift;
  const std::uint64_t half = std::uint64_t{1} << (shift - 1);
  const std::uint64_t rest = significand & ((half << 1) - 1);
  return kept + (rest > half || (rest == half && (kept & 1)));
}

// The magnitude of the nearest code as if the exponent had no upper limit: a
// carry out of the mantissa moves to the next exponent by itself.
constexpr std::uint64_t nearest_magnitude(DType dtype, const Dissected& d) {
  const DTypeTraits& t = traits(dtype);
  if (d.significand == 0) return 0;
  const int min_exponent = 1 - t.bias;
  const int exponent = d.leading > min_exponent ? d.leading : min_exponent;
  const int last_place = exponent - t.mantissa_bits;
  return (static_cast<std::uint64_t>(exponent - min_exponent)
          << t.mantissa_bits) +
         shift_right_even(d.significand, last_place - d.exponent);
}

// Magnitude code of what is beyond the largest finite value.
constexpr std::uint64_t overflow_magnitude(DType dtype, Overflow overflow) {
  if (overflow == Overflow::kSaturate) return max_finite_code(dtype);
  switch (traits(dtype).specials) {
    case Specials::kIeee:
      return max_finite_code(dtype) + 1;
    case Specials::kNone:
      return max_finite_code(dtype);
    default:
      return nan_code(dtype);
  }
}

}  // namespace detail

// How a value between two powers of two becomes an e8m0 scale.
//   kUp       the next higher one: what the MXFP8 quantisers use
//   kDown     the next lower one
//   kNearest  the nearer one, 1.5 * 2^e upwards: the last place is the implied
//             significand bit, which is odd
enum class ScaleRounding : std::uint8_t { kUp, kDown, kNearest };

// e8m0 code of a scale. Zero and everything to 2^-127 is 0x00 (the format has
// no zero), everything above 2^127 and +inf 0xfe, NaN 0xff. A negative value
// is no scale: NaN, never the scale of its magnitude.
constexpr std::uint8_t encode_e8m0(double x, ScaleRounding rounding) {
  if (is_nan(x) || x < 0) return 0xff;
  if (x >= pow2(127)) return 0xfe;
  if (x <= pow2(-127)) return 0x00;
  const Dissected d = dissect(x);
  const int floor_code = d.leading + 127;
  const double floor_value = pow2(d.leading);
  bool up = false;
  if (rounding == ScaleRounding::kUp) up = x > floor_value;
  if (rounding == ScaleRounding::kNearest) up = x >= 1.5 * floor_value;
  return static_cast<std::uint8_t>(floor_code + up);
}

// Code of the nearest value of a float dtype, ties to even, with one rounding
// from the double. -0 keeps its sign where the format has one. NaN gives
// nan_code() without sign, an overflow to NaN keeps it. e8m0: encode_e8m0 to
// nearest; with kSpecial, zero and what rounds beyond 2^127 are NaN.
constexpr std::uint64_t encode_float(DType dtype, double x, Overflow overflow) {
  const Specials specials = traits(dtype).specials;
  if (specials == Specials::kScaleNan) {
    if (overflow == Overflow::kSpecial && (x == 0 || x >= 1.5 * pow2(127)))
      return nan_code(dtype);
    return encode_e8m0(x, ScaleRounding::kNearest);
  }
  if (is_nan(x)) return nan_code(dtype);
  const bool negative = std::bit_cast<std::uint64_t>(x) >> 63 != 0;
  std::uint64_t magnitude = is_inf(x)
                                ? max_finite_code(dtype) + 1
                                : detail::nearest_magnitude(dtype, dissect(x));
  if (magnitude > max_finite_code(dtype))
    magnitude = detail::overflow_magnitude(dtype, overflow);
  if (specials == Specials::kFnuz && (magnitude & magnitude_mask(dtype)) == 0)
    return magnitude;  // zero has no sign there, and NaN is the sign bit
  return negative ? magnitude | sign_mask(dtype) : magnitude;
}

constexpr std::uint64_t encode_float(DType dtype, double x) {
  return encode_float(dtype, x, default_overflow(dtype));
}

}  // namespace assay
