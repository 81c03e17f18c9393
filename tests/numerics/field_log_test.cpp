// Faults reported in public against format conversions, one test each.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "assay/numerics/float_format.h"
#include "assay/numerics/fnuz.h"
#include "assay/numerics/rounding.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr auto kSat = Overflow::kSaturate;
constexpr auto kNoSat = Overflow::kSpecial;

double through(DType dtype, double x, Overflow overflow) {
  return decode_float(dtype, encode_float(dtype, x, overflow));
}

// A tiny amax: 448 / amax is beyond float32, so the scale stops at its max.
// The inverse is subnormal and must not flush to zero.
TEST(FieldLog, F01_TinyAmax) {
  const double amax = static_cast<float>(1e-38);
  const double scale = round_to(DType::kF32, 448 / amax, kSat);
  EXPECT_EQ(scale, std::numeric_limits<float>::max());
  const double code = through(DType::kE4M3FN, amax * scale, kSat);
  EXPECT_EQ(code, 3.5);  // of 3.4028
  const double inverse = round_to(DType::kF32, 1 / scale);
  EXPECT_GT(inverse, 0);
  EXPECT_LT(inverse, min_normal(DType::kF32));
  EXPECT_GT(round_to(DType::kF32, code * inverse), 0);
}

// The largest value comes from the format, never from the source text.
TEST(FieldLog, F09_MaxFromTheFormat) {
  EXPECT_EQ(max_finite(DType::kE4M3FN) / 448, 1.0);
  EXPECT_NEAR(max_finite(DType::kE4M3FNUZ) / 448, 0.5357, 5e-5);
}

TEST(FieldLog, F10_OcpBytesInFnuz) {
  const int codes[] = {0x00, 0x80, 0x38, 0x7e, 0x7f};
  const double ocp[] = {0.0, -0.0, 1.0, 448, NAN};
  const double fnuz[] = {0.0, NAN, 0.5, 224, 240};
  for (int i = 0; i < 5; ++i) {
    const auto code = static_cast<std::uint64_t>(codes[i]);
    const double a = decode_float(DType::kE4M3FN, code);
    const double b = decode_float(DType::kE4M3FNUZ, code);
    EXPECT_TRUE(a == ocp[i] || (std::isnan(a) && std::isnan(ocp[i])));
    EXPECT_TRUE(b == fnuz[i] || (std::isnan(b) && std::isnan(fnuz[i])));
  }
  EXPECT_TRUE(std::signbit(decode_float(DType::kE4M3FN, 0x80)));
}

TEST(FieldLog, F10_ConversionHalvesEveryFiniteCode) {
  for (const DType ocp : {DType::kE4M3FN, DType::kE5M2}) {
    const DType fnuz = fnuz_counterpart(ocp).value();
    for (int code = 0; code < 256; ++code) {
      const auto from = static_cast<std::uint8_t>(code);
      const std::uint8_t to = fnuz_from_ocp(ocp, from);
      const double value = decode_float(ocp, from);
      if (std::isfinite(value)) {
        ASSERT_EQ(decode_float(fnuz, to) * 2, value) << code;
        if (from != 0x80) {
          ASSERT_EQ(to, from);
        }
      } else {
        ASSERT_EQ(to, 0x80) << code;
      }
    }
  }
  EXPECT_EQ(fnuz_from_ocp(DType::kE4M3FN, 0x80), 0x00);
  EXPECT_EQ(fnuz_from_ocp(DType::kE4M3FN, 0x7f), 0x80);
  EXPECT_EQ(fnuz_from_ocp(DType::kE4M3FN, 0xff), 0x80);
  EXPECT_FALSE(fnuz_counterpart(DType::kBF16));
}

TEST(FieldLog, F10_BackwardsDoublesOrRefuses) {
  for (const DType ocp : {DType::kE4M3FN, DType::kE5M2}) {
    const DType fnuz = fnuz_counterpart(ocp).value();
    for (int code = 0; code < 256; ++code) {
      const auto from = static_cast<std::uint8_t>(code);
      const auto to = ocp_from_fnuz(ocp, from);
      const double twice = 2 * decode_float(fnuz, from);
      if (!to) {
        EXPECT_GT(std::fabs(twice), max_finite(ocp)) << code;
      } else if (std::isnan(twice)) {
        EXPECT_TRUE(is_nan_code(ocp, *to));
      } else {
        EXPECT_EQ(decode_float(ocp, *to), twice) << code;
      }
    }
  }
  EXPECT_FALSE(ocp_from_fnuz(DType::kE4M3FN, 0x7f));
  EXPECT_FALSE(ocp_from_fnuz(DType::kE4M3FN, 0xff));
}

TEST(FieldLog, F11_OverflowIsNanOrSaturates) {
  const double above = std::nextafter(464.0f, 500.0f);
  for (const double x : {448.0, 464.0})
    EXPECT_EQ(through(DType::kE4M3FN, x, kNoSat), 448) << x;
  for (const double x : {above, 465.0, 1e4, -1e4, kInf, -kInf}) {
    EXPECT_TRUE(std::isnan(through(DType::kE4M3FN, x, kNoSat))) << x;
    EXPECT_EQ(through(DType::kE4M3FN, x, kSat), std::copysign(448, x)) << x;
  }
  EXPECT_EQ(through(DType::kE5M2, 61439, kNoSat), 57344);
  EXPECT_EQ(through(DType::kE5M2, 61440, kNoSat), kInf);
  EXPECT_EQ(through(DType::kE5M2, 61440, kSat), 57344);
  EXPECT_EQ(through(DType::kE5M2, -kInf, kSat), -57344);
}

// The Cast table of ONNX as corrected after the report (opset 25): without
// saturation every infinity is fnuz's NaN, with it the largest value.
TEST(FieldLog, F12_InfinityIntoFnuz) {
  for (const DType dtype : {DType::kE4M3FNUZ, DType::kE5M2FNUZ}) {
    for (const double x : {kInf, -kInf}) {
      EXPECT_EQ(encode_float(dtype, x, kNoSat), 0x80u);
      EXPECT_EQ(through(dtype, x, kSat), std::copysign(max_finite(dtype), x));
    }
  }
  EXPECT_EQ(max_finite(DType::kE4M3FNUZ), 240);
}

// 957 in a block whose largest is 959.56: the shared exponent's rule decides.
TEST(FieldLog, F13_FloorOrCeilExponent) {
  const double amax = 959.56;
  const double up =
      decode_float(DType::kE8M0, encode_e8m0(amax / 448, ScaleRounding::kUp));
  EXPECT_EQ(up, 4);
  EXPECT_EQ(through(DType::kE4M3FN, 957 / up, kSat) * up, 960);
  // OCP MX 1.0, 6.3: floor(log2(amax)) - emax of the element, here 9 - 8.
  const double floor =
      decode_float(DType::kE8M0, encode_e8m0(amax / 256, ScaleRounding::kDown));
  EXPECT_EQ(floor, 2);
  EXPECT_EQ(through(DType::kE4M3FN, 957 / floor, kSat) * floor, 896);
}

TEST(FieldLog, F16_EncodeOfDecodeIsIdentity) {
  for (const DTypeTraits& t : kDTypes) {
    if (t.kind != DTypeKind::kFloat || t.bits > 16) continue;
    for (std::uint64_t code = 0; code < 1u << t.bits; ++code) {
      const double value = decode_float(t.id, code);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(encode_float(t.id, value, kSat), code) << t.name;
      ASSERT_EQ(encode_float(t.id, value, kNoSat), code) << t.name;
    }
  }
  EXPECT_EQ(through(DType::kE2M1, 0.25, kSat), 0);
  EXPECT_EQ(through(DType::kE2M1, 0.25000006, kSat), 0.5);
}

TEST(FieldLog, F16_IdentityOfWideFormats) {
  for (std::uint64_t i = 0; i < 300'000; ++i) {
    const std::uint64_t bits = i * 0x9e3779b97f4a7c15u;
    for (const auto& [dtype, code] :
         {std::pair{DType::kF32, bits >> 32}, {DType::kF64, bits}}) {
      const double value = decode_float(dtype, code);
      if (!std::isfinite(value)) continue;
      ASSERT_EQ(encode_float(dtype, value), code);
    }
  }
}

}  // namespace
}  // namespace assay
