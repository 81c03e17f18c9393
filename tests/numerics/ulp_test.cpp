// Spacing and distances in units of the last place.
#include "assay/numerics/ulp.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay {
namespace {

TEST(Ulp, KnownSpacings) {
  EXPECT_EQ(ulp(DType::kF32, 1.0), 0x1p-23);
  EXPECT_EQ(ulp(DType::kF32, -1.5), 0x1p-23);
  EXPECT_EQ(ulp(DType::kF32, 0.999), 0x1p-24);
  EXPECT_EQ(ulp(DType::kF32, 0), 0x1p-149);
  EXPECT_EQ(ulp(DType::kF32, 0x1p-140), 0x1p-149);
  EXPECT_EQ(ulp(DType::kF64, 1.0), 0x1p-52);
  EXPECT_EQ(ulp(DType::kF64, 0), 0x1p-1074);
  EXPECT_EQ(ulp(DType::kF64, 1.7976931348623157e308), 0x1p971);
  EXPECT_EQ(ulp(DType::kBF16, 1000), 4);
  EXPECT_EQ(ulp(DType::kE4M3FN, 1), 0.125);
  EXPECT_EQ(ulp(DType::kE4M3FN, 448), 32);
  EXPECT_EQ(ulp(DType::kE4M3FN, 1e6), 32);
  EXPECT_EQ(ulp(DType::kE2M1, 0.25), 0.5);
  EXPECT_EQ(ulp(DType::kE2M1, 5), 2);
  EXPECT_EQ(ulp(DType::kE8M0, 8), 8);
  EXPECT_EQ(ulp(DType::kI32, 12345), 1);
  EXPECT_EQ(ulp(DType::kC64, 1), 0x1p-23);
  EXPECT_TRUE(std::isnan(ulp(DType::kF32, HUGE_VAL)));
  EXPECT_TRUE(std::isnan(ulp(DType::kF32, NAN)));
}

// The spacing is the distance to the next larger code, for every code.
TEST(Ulp, IsTheStepToTheNextCode) {
  for (const DTypeTraits& t : kDTypes) {
    if (t.kind != DTypeKind::kFloat || t.bits > 16) continue;
    for (std::uint64_t code = 0; code < max_finite_code(t.id); ++code) {
      const double x = decode_float(t.id, code);
      ASSERT_EQ(ulp(t.id, x), decode_float(t.id, code + 1) - x)
          << t.name << " " << code;
    }
  }
}

TEST(Ulp, Error) {
  EXPECT_EQ(ulp_error(DType::kF32, 1.0, 1.0 + 0x1p-22), 2);
  EXPECT_EQ(ulp_error(DType::kF32, 1.0, 1.0 + 0x1p-24), 0.5);
  EXPECT_EQ(ulp_error(DType::kF32, 0.0, -0.0), 0);
  EXPECT_EQ(ulp_error(DType::kI64, 7, 10), 3);
  EXPECT_EQ(ulp_error(DType::kF32, HUGE_VAL, HUGE_VAL), 0);
  EXPECT_TRUE(std::isnan(ulp_error(DType::kF32, HUGE_VAL, 1)));
  EXPECT_TRUE(std::isnan(ulp_error(DType::kF32, 1, NAN)));
}

// One code apart, and -0 against 0 no distance at all.
TEST(Ulp, F60_CodeDistance) {
  const auto one = encode_float(DType::kE4M3FN, 1.0);
  EXPECT_EQ(
      code_distance(DType::kE4M3FN, one, encode_float(DType::kE4M3FN, 1.125)),
      1u);
  EXPECT_EQ(code_distance(DType::kE4M3FN, 0x00, 0x80), 0u);
  EXPECT_EQ(code_distance(DType::kE4M3FN, 0x01, 0x81), 2u);
  EXPECT_EQ(code_distance(DType::kF64, 0xffefffffffffffff, 0x7fefffffffffffff),
            0xffdffffffffffffeu);
  EXPECT_EQ(code_distance(DType::kE8M0, 3, 250), 247u);
}

}  // namespace
}  // namespace assay
