// Encoding against the CUDA host converters, ml_dtypes and numpy.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "assay/numerics/float_format.h"
#include "fixture.h"

namespace assay {
namespace {

using test::read_fixture;

constexpr DType kNarrow[] = {DType::kE4M3FN,   DType::kE5M2, DType::kE4M3FNUZ,
                             DType::kE5M2FNUZ, DType::kE2M1, DType::kE8M0};

std::string short_name(DType dtype) {
  return std::string(traits(dtype).short_name);
}

template <typename Value, typename Code>
void expect_codes(DType dtype, Overflow overflow, const std::vector<Value>& x,
                  const std::vector<Code>& codes) {
  ASSERT_EQ(x.size(), codes.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::uint64_t code =
        encode_float(dtype, static_cast<double>(x[i]), overflow);
    EXPECT_EQ(code, codes[i]) << short_name(dtype) << " of " << x[i];
  }
}

void expect_fp8(DType dtype, const std::string& name) {
  const std::string base = "oracle_fmt_encode_" + name + ".";
  const auto x = read_fixture<float>(base + "x.bin");
  expect_codes(dtype, Overflow::kSaturate, x,
               read_fixture<std::uint8_t>(base + "code_sat.bin"));
  expect_codes(dtype, Overflow::kSpecial, x,
               read_fixture<std::uint8_t>(base + "code_nosat.bin"));
  std::vector<double> from_bf16;
  for (const auto bits : read_fixture<std::uint16_t>(base + "x_bf16.bin"))
    from_bf16.push_back(decode_float(DType::kBF16, bits));
  expect_codes(dtype, Overflow::kSaturate, from_bf16,
               read_fixture<std::uint8_t>(base + "code_from_bf16.bin"));
  const auto nan = read_fixture<float>(base + "nan_x.bin");
  const auto code = read_fixture<std::uint8_t>(base + "nan_code_vendor.bin");
  ASSERT_EQ(nan.size(), code.size());
  for (std::size_t i = 0; i < nan.size(); ++i)
    EXPECT_EQ(encode_float(dtype, nan[i]), code[i]);
}

TEST(Encode, CudaE4M3) { expect_fp8(DType::kE4M3FN, "e4m3"); }
TEST(Encode, CudaE5M2) { expect_fp8(DType::kE5M2, "e5m2"); }

TEST(Encode, CudaE2M1) {
  const std::string base = "oracle_fmt_encode_e2m1.";
  const auto x = read_fixture<float>(base + "x.bin");
  const auto code = read_fixture<std::uint8_t>(base + "code.bin");
  expect_codes(DType::kE2M1, Overflow::kSaturate, x, code);
  expect_codes(DType::kE2M1, Overflow::kSpecial, x, code);
}

TEST(Encode, CudaHalfAndBfloat16) {
  const std::string base = "oracle_fmt_encode_bf16_fp16.";
  const auto x = read_fixture<float>(base + "x.bin");
  expect_codes(DType::kBF16, Overflow::kSpecial, x,
               read_fixture<std::uint16_t>(base + "bf16.bin"));
  expect_codes(DType::kF16, Overflow::kSpecial, x,
               read_fixture<std::uint16_t>(base + "fp16.bin"));
}

TEST(Encode, CudaE8M0UpAndDown) {
  const std::string base = "oracle_fmt_encode_e8m0.";
  const auto x = read_fixture<float>(base + "x.bin");
  const auto up = read_fixture<std::uint8_t>(base + "code_up.bin");
  const auto down = read_fixture<std::uint8_t>(base + "code_down_vendor.bin");
  ASSERT_EQ(x.size(), up.size());
  ASSERT_EQ(x.size(), down.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(encode_e8m0(x[i], ScaleRounding::kUp), up[i]) << x[i];
    EXPECT_EQ(encode_e8m0(x[i], ScaleRounding::kDown), down[i]) << x[i];
  }
  for (const float nan : read_fixture<float>(base + "nan_x.bin"))
    EXPECT_EQ(encode_e8m0(nan, ScaleRounding::kUp), 0xff);
}

// The block exponents of MXFP8: round up of fp32(amax * fp32(1 / max)).
TEST(Encode, MxScaleTable) {
  for (const auto& [name, dtype] :
       {std::pair{"e4m3", DType::kE4M3FN}, {"e5m2", DType::kE5M2}}) {
    const std::string base = "oracle_mxfp8_scale_table.";
    const auto amax = read_fixture<float>(base + "amax_" + name + ".bin");
    const auto exponent =
        read_fixture<std::uint8_t>(base + "exponent_" + name + ".bin");
    ASSERT_EQ(amax.size(), exponent.size());
    const float inverse = 1.0f / static_cast<float>(max_finite(dtype));
    for (std::size_t i = 0; i < amax.size(); ++i) {
      const float scale = amax[i] * inverse;
      EXPECT_EQ(encode_e8m0(scale, ScaleRounding::kUp), exponent[i]) << amax[i];
    }
  }
}

struct Run {
  unsigned first, special, saturated;
};

std::vector<Run> read_runs(const std::string& name) {
  std::ifstream file(test::fixture_path(name));
  EXPECT_TRUE(file.good()) << name;
  std::vector<Run> runs;
  Run run{};
  while (file >> std::hex >> run.first >> run.special >> run.saturated)
    runs.push_back(run);
  return runs;
}

// What the fixture leaves out: the peers disagree on e2m1's NaN, a negative
// e8m0 scale has no meaning, and ml_dtypes rounds the lowest e8m0 binade up.
bool left_out(DType dtype, double x) {
  if (dtype == DType::kE2M1) return std::isnan(x);
  return dtype == DType::kE8M0 && (x < 0 || (x > 0x1p-127 && x < 0x1p-126));
}

void expect_grid(DType source, DType dtype) {
  const auto runs = read_runs("grid_" + short_name(source) + "_" +
                              short_name(dtype) + ".txt");
  ASSERT_FALSE(runs.empty());
  std::size_t run = 0;
  for (unsigned code = 0; code < 65536; ++code) {
    if (run + 1 < runs.size() && runs[run + 1].first == code) ++run;
    const double x = decode_float(source, code);
    if (left_out(dtype, x)) continue;
    ASSERT_EQ(encode_float(dtype, x, Overflow::kSpecial), runs[run].special)
        << short_name(dtype) << " of " << x;
    ASSERT_EQ(encode_float(dtype, x, Overflow::kSaturate), runs[run].saturated)
        << short_name(dtype) << " of " << x;
  }
  EXPECT_EQ(run, runs.size() - 1);
}

TEST(Encode, EveryBfloat16AsMlDtypes) {
  for (const DType dtype : kNarrow) expect_grid(DType::kBF16, dtype);
}
TEST(Encode, EveryHalfAsMlDtypes) {
  for (const DType dtype : kNarrow) expect_grid(DType::kF16, dtype);
}

TEST(Encode, RandomDoublesAsMlDtypes) {
  for (const DType dtype : kNarrow) {
    const std::string base = "random_" + short_name(dtype);
    expect_codes(dtype, Overflow::kSpecial, read_fixture<double>(base + ".bin"),
                 read_fixture<std::uint8_t>(base + ".code.bin"));
  }
  expect_codes(DType::kF16, Overflow::kSpecial,
               read_fixture<double>("random_f16.bin"),
               read_fixture<std::uint16_t>("random_f16.code.bin"));
}

// The machine's own conversion is the oracle.
TEST(Encode, SingleAsTheMachine) {
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    std::uint64_t bits = i * 0x9e3779b97f4a7c15u;
    if (i % 2)  // near the range of float32, else all of float64
      bits = (bits & 0x800fffffffffffff) | (870 + bits % 290) << 52;
    const auto x = std::bit_cast<double>(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(encode_float(DType::kF32, x),
              std::bit_cast<std::uint32_t>(static_cast<float>(x)))
        << x;
    ASSERT_EQ(encode_float(DType::kF64, x), bits);
  }
}

// 1 + 2^-8 + 2^-40 is above the tie of bf16; through float32 it would land on
// the tie and go down.
TEST(Encode, RoundsOnce) {
  const double x = 1 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(encode_float(DType::kBF16, x), 0x3f81u);
  EXPECT_EQ(encode_float(DType::kBF16, static_cast<float>(x)), 0x3f80u);
}

TEST(Encode, OverflowOfWideFormats) {
  EXPECT_EQ(encode_float(DType::kF16, 65519.99), 0x7bffu);
  EXPECT_EQ(encode_float(DType::kF16, 65520), 0x7c00u);
  EXPECT_EQ(encode_float(DType::kF16, -1e9, Overflow::kSaturate), 0xfbffu);
  EXPECT_EQ(encode_float(DType::kBF16, 3.4e38), 0x7f80u);
  EXPECT_EQ(encode_float(DType::kBF16, 3.4e38, Overflow::kSaturate), 0x7f7fu);
  EXPECT_EQ(encode_float(DType::kF32, 1e39), 0x7f800000u);
  EXPECT_EQ(encode_float(DType::kF32, 1e39, Overflow::kSaturate), 0x7f7fffffu);
}

TEST(Encode, NanOfEveryFormat) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<DType, std::uint64_t> expected[] = {
      {DType::kF64, 0x7ff8000000000000},
      {DType::kF32, 0x7fc00000},
      {DType::kF16, 0x7e00},
      {DType::kBF16, 0x7fc0},
      {DType::kE4M3FN, 0x7f},
      {DType::kE5M2, 0x7f},
      {DType::kE4M3FNUZ, 0x80},
      {DType::kE5M2FNUZ, 0x80},
      {DType::kE2M1, 7},
      {DType::kE8M0, 0xff}};
  for (const auto& [dtype, code] : expected) {
    for (const double x : {nan, -nan}) {
      EXPECT_EQ(encode_float(dtype, x, Overflow::kSpecial), code);
      EXPECT_EQ(encode_float(dtype, x, Overflow::kSaturate), code);
    }
  }
}

TEST(Encode, SignOfZero) {
  EXPECT_EQ(encode_float(DType::kE4M3FN, -0.0), 0x80u);
  EXPECT_EQ(encode_float(DType::kE4M3FN, -0x1p-11), 0x80u);
  EXPECT_EQ(encode_float(DType::kE4M3FNUZ, -0.0), 0x00u);
  EXPECT_EQ(encode_float(DType::kE5M2FNUZ, -0x1p-30), 0x00u);
  EXPECT_EQ(encode_float(DType::kE2M1, -0.0), 8u);
  EXPECT_EQ(encode_float(DType::kE2M1, -0.25), 8u);
  EXPECT_EQ(encode_float(DType::kF32, -0.0), 0x80000000u);
}

TEST(Encode, E8M0Edges) {
  const double above_min = std::nextafter(0x1p-127, 1.0);
  const double above_one = std::nextafter(1.0, 2.0);
  const std::pair<double, int> up[] = {
      {0, 0},           {0x1p-149, 0},     {0x1p-127, 0},   {above_min, 1},
      {1.0, 0x7f},      {above_one, 0x80}, {0x1p127, 0xfe}, {1e300, 0xfe},
      {HUGE_VAL, 0xfe}, {-1.0, 0xff}};
  for (const auto& [x, code] : up)
    EXPECT_EQ(encode_e8m0(x, ScaleRounding::kUp), code) << x;
  EXPECT_EQ(encode_e8m0(1.999, ScaleRounding::kDown), 0x7f);
  EXPECT_EQ(encode_e8m0(1.499, ScaleRounding::kNearest), 0x7f);
  EXPECT_EQ(encode_e8m0(1.5, ScaleRounding::kNearest), 0x80);
  EXPECT_EQ(encode_e8m0(3.0, ScaleRounding::kNearest), 0x81);
}

}  // namespace
}  // namespace assay
