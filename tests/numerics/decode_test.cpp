// Every code of every narrow format against outside tables.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <map>

#include "assay/numerics/float_format.h"
#include "fixture.h"

namespace assay {
namespace {

using test::read_fixture;

// Same bits, so that -0 is told from 0; any NaN equals any NaN.
bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

void expect_table(DType dtype, const std::string& file) {
  const auto values = read_fixture<float>(file);
  ASSERT_EQ(values.size(), std::size_t{1} << traits(dtype).bits);
  for (std::size_t code = 0; code < values.size(); ++code) {
    EXPECT_TRUE(same(decode_float(dtype, code), values[code]))
        << file << " code " << code << " is " << decode_float(dtype, code)
        << ", expected " << values[code];
  }
}

TEST(Decode, CudaHostTables) {
  const std::string base = "oracle_fmt_decode_tables.";
  expect_table(DType::kE4M3FN, base + "e4m3_value.bin");
  expect_table(DType::kE5M2, base + "e5m2_value.bin");
  expect_table(DType::kE8M0, base + "e8m0_value.bin");
  expect_table(DType::kE2M1, base + "e2m1_value.bin");
}

TEST(Decode, MlDtypesTables) {
  for (const DType dtype : {DType::kE4M3FN, DType::kE5M2, DType::kE4M3FNUZ,
                            DType::kE5M2FNUZ, DType::kE2M1, DType::kE8M0}) {
    expect_table(dtype,
                 "decode_" + std::string(traits(dtype).short_name) + ".bin");
  }
}

// The factor a quantiser multiplies by: 2^(127 - code), NaN for code 255.
TEST(Decode, E8M0Reciprocal) {
  const auto factor =
      read_fixture<float>("oracle_fmt_decode_tables.e8m0_reciprocal.bin");
  ASSERT_EQ(factor.size(), 256u);
  for (std::size_t code = 0; code < 256; ++code)
    EXPECT_TRUE(same(1.0 / decode_float(DType::kE8M0, code), factor[code]))
        << code;
}

std::map<std::string, std::uint64_t> read_checksums() {
  std::ifstream file(test::fixture_path("checksum.txt"));
  std::map<std::string, std::uint64_t> sums;
  std::string name;
  std::uint64_t sum = 0;
  while (file >> name >> std::hex >> sum) sums[name] = sum;
  return sums;
}

// numpy's and ml_dtypes' value of each of the 65,536 codes, as one checksum.
TEST(Decode, AllHalfAndBfloat16Codes) {
  const auto expected = read_checksums();
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    std::uint64_t sum = 0;
    for (std::uint64_t code = 0; code < 65536; ++code) {
      const auto value = static_cast<float>(decode_float(dtype, code));
      const std::uint32_t bits =
          std::isnan(value) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(value);
      sum += (code + 1) * bits;
    }
    EXPECT_EQ(sum, expected.at(std::string(traits(dtype).short_name)));
  }
}

TEST(Decode, Bfloat16IsTheUpperHalfOfFloat32) {
  for (std::uint32_t code = 0; code < 65536; ++code) {
    const auto value = std::bit_cast<float>(code << 16);
    ASSERT_TRUE(same(decode_float(DType::kBF16, code), value)) << code;
  }
}

// float32 and float64 against the machine's own reading of the bits.
TEST(Decode, SingleAndDouble) {
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const std::uint64_t bits = i * 0x9e3779b97f4a7c15u;
    const auto low = static_cast<std::uint32_t>(bits >> 32);
    ASSERT_TRUE(
        same(decode_float(DType::kF32, low), std::bit_cast<float>(low)));
    ASSERT_TRUE(
        same(decode_float(DType::kF64, bits), std::bit_cast<double>(bits)));
  }
  EXPECT_EQ(decode_float(DType::kF64, 1), 0x1p-1074);
  EXPECT_EQ(decode_float(DType::kF32, 1), 0x1p-149);
}

TEST(Decode, Limits) {
  EXPECT_EQ(max_finite(DType::kE4M3FN), 448);
  EXPECT_EQ(max_finite(DType::kE5M2), 57344);
  EXPECT_EQ(max_finite(DType::kE4M3FNUZ), 240);
  EXPECT_EQ(max_finite(DType::kE5M2FNUZ), 57344);
  EXPECT_EQ(max_finite(DType::kE2M1), 6);
  EXPECT_EQ(max_finite(DType::kE8M0), 0x1p127);
  EXPECT_EQ(max_finite(DType::kF16), 65504);
  EXPECT_EQ(max_finite(DType::kF32), 3.4028234663852886e38);
  EXPECT_EQ(max_finite(DType::kF64), 1.7976931348623157e308);
  EXPECT_EQ(min_normal(DType::kE4M3FN), 0x1p-6);
  EXPECT_EQ(min_normal(DType::kE5M2), 0x1p-14);
  EXPECT_EQ(min_normal(DType::kE8M0), 0x1p-127);
  EXPECT_EQ(min_positive(DType::kE4M3FN), 0x1p-9);
  EXPECT_EQ(min_positive(DType::kE5M2), 0x1p-16);
  EXPECT_EQ(min_positive(DType::kE4M3FNUZ), 0x1p-10);
  EXPECT_EQ(min_positive(DType::kE5M2FNUZ), 0x1p-17);
  EXPECT_EQ(min_positive(DType::kE2M1), 0.5);
  EXPECT_EQ(min_positive(DType::kE8M0), 0x1p-127);
}

TEST(Decode, F15_E8M0Sentinel) {
  EXPECT_EQ(decode_float(DType::kE8M0, 0), 0x1p-127);
  EXPECT_EQ(decode_float(DType::kE8M0, 127), 1);
  EXPECT_EQ(decode_float(DType::kE8M0, 134), 128);
  EXPECT_EQ(decode_float(DType::kE8M0, 254), 0x1p127);
  EXPECT_TRUE(std::isnan(decode_float(DType::kE8M0, 255)));
}

TEST(Decode, F81_PowersOfTwoAreExact) {
  for (int e = -1074; e <= 1023; ++e)
    ASSERT_EQ(pow2(e), std::ldexp(1.0, e)) << e;
  for (int e = -126; e <= 127; ++e) {
    const float scaled = 1.0f * static_cast<float>(pow2(e));
    ASSERT_EQ(std::bit_cast<std::uint32_t>(scaled),
              static_cast<std::uint32_t>(e + 127) << 23);
  }
}

}  // namespace
}  // namespace assay
