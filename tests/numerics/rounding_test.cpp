// Rounding as a property: nearest, ties to even, monotone, odd.
#include "assay/numerics/rounding.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace assay {
namespace {

const std::vector<DType> kFormats = {
    DType::kF32,  DType::kF16,      DType::kBF16,     DType::kE4M3FN,
    DType::kE5M2, DType::kE4M3FNUZ, DType::kE5M2FNUZ, DType::kE2M1};

// A double somewhere in, just beyond or far below the range of `dtype`, often
// on or beside a tie.
double interesting(DType dtype) {
  const int high = dissect(max_finite(dtype)).leading + 1;
  const int low = dissect(min_positive(dtype)).leading - 2;
  const int exponent = *rc::gen::inRange(low, high + 1);
  std::uint64_t fraction = *rc::gen::arbitrary<std::uint64_t>() >> 12;
  const int kept = *rc::gen::inRange(0, 53);
  fraction &= ~std::uint64_t{0} << kept;
  const double x =
      std::ldexp(1.0 + static_cast<double>(fraction) * 0x1p-52, exponent);
  const int nudge = *rc::gen::inRange(-1, 2);
  const double y = nudge == 0 ? x : std::nextafter(x, nudge * HUGE_VAL);
  return *rc::gen::arbitrary<bool>() ? -y : y;
}

RC_GTEST_PROP(Rounding, NearestAndTiesToEven, ()) {
  const DType dtype = *rc::gen::elementOf(kFormats);
  const double x = std::fabs(interesting(dtype));
  const std::uint64_t code = encode_float(dtype, x, Overflow::kSaturate);
  const double value = decode_float(dtype, code);
  RC_ASSERT(std::isfinite(value));
  if (x >= max_finite(dtype)) {
    RC_ASSERT(code == max_finite_code(dtype));
    return;
  }
  const double distance = std::fabs(value - x);
  for (const std::int64_t step : {-1, 1}) {
    if (code == 0 && step < 0) continue;
    const std::uint64_t other = code + static_cast<std::uint64_t>(step);
    if (other > max_finite_code(dtype)) continue;
    const double away = std::fabs(decode_float(dtype, other) - x);
    RC_ASSERT(distance <= away);
    if (distance == away) RC_ASSERT((code & 1) == 0u);
  }
}

RC_GTEST_PROP(Rounding, Monotone, ()) {
  const DType dtype = *rc::gen::elementOf(kFormats);
  const double a = interesting(dtype), b = interesting(dtype);
  const auto overflow = Overflow::kSaturate;
  RC_ASSERT(a > b ||
            round_to(dtype, a, overflow) <= round_to(dtype, b, overflow));
}

RC_GTEST_PROP(Rounding, OddAndIdempotent, ()) {
  const DType dtype = *rc::gen::elementOf(kFormats);
  const double x = interesting(dtype);
  const double once = round_to(dtype, x);
  RC_ASSERT(round_to(dtype, -x) == -once || std::isnan(once));
  RC_ASSERT(round_to(dtype, once) == once || std::isnan(once));
}

// Each midpoint of neighbours goes to the even code, its neighbours to the
// nearer one: for every format of 16 bits or fewer, every midpoint.
TEST(Rounding, EveryTieAndItsNeighbours) {
  for (const DType dtype : kFormats) {
    if (traits(dtype).bits > 16) continue;
    for (std::uint64_t code = 0; code < max_finite_code(dtype); ++code) {
      const double low = decode_float(dtype, code);
      const double tie = (low + decode_float(dtype, code + 1)) / 2;
      ASSERT_EQ(encode_float(dtype, tie), code + (code & 1)) << low;
      ASSERT_EQ(encode_float(dtype, std::nextafter(tie, 0.0)), code);
      ASSERT_EQ(encode_float(dtype, std::nextafter(tie, HUGE_VAL)), code + 1);
    }
  }
}

TEST(Rounding, Integers) {
  EXPECT_EQ(round_to(DType::kI8, 2.5), 2);
  EXPECT_EQ(round_to(DType::kI8, 3.5), 4);
  EXPECT_EQ(round_to(DType::kI8, -2.5), -2);
  EXPECT_EQ(round_to(DType::kI8, 127.5), 127);
  EXPECT_EQ(round_to(DType::kI8, -1e9), -128);
  EXPECT_EQ(round_to(DType::kU8, -0.6), 0);
  EXPECT_EQ(round_to(DType::kU8, HUGE_VAL), 255);
  EXPECT_EQ(round_to(DType::kI32, 2147483648.0), 2147483647);
  EXPECT_EQ(round_to(DType::kI64, NAN), 0);
  EXPECT_EQ(round_to(DType::kU64, 1e30), 0x1p64);
  EXPECT_EQ(round_to(DType::kBool, 0.1), 1);
  EXPECT_EQ(round_to(DType::kBool, -0.0), 0);
  EXPECT_EQ(round_to(DType::kC64, 0.1), static_cast<double>(0.1f));
}

RC_GTEST_PROP(Rounding, RoundEvenIsNearbyint, (std::uint64_t bits)) {
  const auto x = std::bit_cast<double>(bits);
  RC_PRE(std::isfinite(x));
  RC_ASSERT(round_even(x) == std::nearbyint(x));
  const double near_one = std::fmod(x, 1e6);
  RC_ASSERT(round_even(near_one) == std::nearbyint(near_one));
}

}  // namespace
}  // namespace assay
