// Every cast kernel of this machine against the specification of the formats,
// bit by bit.
#include "assay/kernels/cast.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "assay/kernels/scalar_half.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

using Codes = std::vector<std::uint8_t>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::uint8_t expected_code(DType format, float x, float factor) {
  volatile float product = x * factor;
  return static_cast<std::uint8_t>(
      encode_float(format, static_cast<double>(product)));
}

// Every value of the format with its neighbours and midpoints, both signs,
// what is beyond the largest, subnormal fp32, random bits.
std::vector<float> hard_floats(DType format) {
  std::vector<float> out = {0.0f, -0.0f, kInf, -kInf, kNan, -kNan, 1e-45f};
  for (unsigned code = 0; code < 256; ++code) {
    const double v = decode_float(format, code);
    if (!std::isfinite(v)) continue;
    const double next = decode_float(format, code + 1 > 255 ? 255 : code + 1);
    for (double x : {v, (v + (std::isfinite(next) ? next : v)) / 2}) {
      const auto f = static_cast<float>(x);
      out.insert(out.end(),
                 {f, std::nextafter(f, kInf), std::nextafter(f, -kInf)});
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i)
    out.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (int i = 0; i < 16; ++i)
      out.push_back(std::bit_cast<float>(
          (exponent << 23) |
          (static_cast<std::uint32_t>(random()) & 0x807fffff)));
  return out;
}

class CastKernelsTest : public testing::TestWithParam<const CastKernels*> {};
INSTANTIATE_TEST_SUITE_P(AllSets, CastKernelsTest,
                         testing::ValuesIn(all_cast_kernels().begin(),
                                           all_cast_kernels().end()),
                         [](const auto& set) {
                           return std::string(set.param->isa);
                         });

TEST_P(CastKernelsTest, HardFloatsEncodeAsTheSpecificationSays) {
  for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
    const std::vector<float> x = hard_floats(kCastFormats[f]);
    for (float factor :
         {1.0f, 3.25f, -0.375f, 0x1p-100f, 3.4028235e38f, kNan}) {
      Codes got(x.size());
      GetParam()->f32.format[f].cast(
          x.data(), static_cast<std::int64_t>(x.size()), factor, got.data());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(got[i], expected_code(kCastFormats[f], x[i], factor))
            << traits(kCastFormats[f]).name << " " << x[i] << " * " << factor;
    }
  }
}

// All 65,536 codes of bf16 and of f16.
template <typename Value>
void expect_every_half(const CastType<std::uint16_t>& type, Value value) {
  std::vector<std::uint16_t> x(65536);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::uint16_t>(i);
  for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
    for (float factor : {1.0f, 0.3f, 0x1p100f}) {
      Codes got(x.size());
      type.format[f].cast(x.data(), 65536, factor, got.data());
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(got[i], expected_code(kCastFormats[f], value(x[i]), factor))
            << traits(kCastFormats[f]).name << " of code " << i << " * "
            << factor;
    }
  }
}
TEST_P(CastKernelsTest, EveryBf16Encodes) {
  expect_every_half(GetParam()->bf16, bf16_value);
}
TEST_P(CastKernelsTest, EveryF16Encodes) {
  expect_every_half(GetParam()->f16, f16_value);
}

// A NaN at every place of a long row, among numbers of both signs.
TEST_P(CastKernelsTest, NanStandsAloneWhereverItIs) {
  std::vector<std::uint16_t> x(200);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<std::uint16_t>((i % 2 << 15) | (0x3f80 + i));
  for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
    for (std::size_t at = 0; at < x.size(); ++at) {
      auto with_nan = x;
      with_nan[at] = 0xffc1;
      for (float factor : {3.25f, -0.5f}) {
        Codes got(x.size());
        GetParam()->bf16.format[f].cast(with_nan.data(), 200, factor,
                                        got.data());
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_EQ(got[i], expected_code(kCastFormats[f],
                                          bf16_value(with_nan[i]), factor))
              << at << " " << i;
      }
    }
  }
}

// Every code times factors that leave the range of each output type.
TEST_P(CastKernelsTest, F16_EveryCodeDecodes) {
  Codes codes(256);
  for (std::size_t i = 0; i < 256; ++i) codes[i] = static_cast<std::uint8_t>(i);
  for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
    for (float factor : {1.0f, 0.3076923f, 1e-40f, 0x1p-149f, 0x1p-20f, 300.0f,
                         1e36f, 0.0f, kInf, kNan, -2.5f}) {
      std::vector<float> f32(256);
      std::vector<std::uint16_t> bf16(256), f16(256);
      GetParam()->f32.format[f].decode(codes.data(), 256, factor, f32.data());
      GetParam()->bf16.format[f].decode(codes.data(), 256, factor, bf16.data());
      GetParam()->f16.format[f].decode(codes.data(), 256, factor, f16.data());
      for (std::size_t i = 0; i < 256; ++i) {
        const auto q = static_cast<float>(decode_float(kCastFormats[f], i));
        volatile float product = q * factor;
        const auto v = static_cast<double>(product);
        SCOPED_TRACE(std::string(traits(kCastFormats[f]).name) + " code " +
                     std::to_string(i) + " * " + std::to_string(factor));
        ASSERT_EQ(std::bit_cast<std::uint32_t>(f32[i]),
                  encode_float(DType::kF32, v));
        ASSERT_EQ(bf16[i], encode_float(DType::kBF16, v));
        ASSERT_EQ(f16[i], encode_float(DType::kF16, v));
      }
    }
  }
}

// Decode then encode is the identity for every finite code.
TEST_P(CastKernelsTest, F16_EncodeOfDecodeIsTheIdentity) {
  for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
    for (unsigned code = 0; code < 256; ++code) {
      if (!std::isfinite(decode_float(kCastFormats[f], code))) continue;
      const auto in = static_cast<std::uint8_t>(code);
      float value;
      std::uint8_t back;
      GetParam()->f32.format[f].decode(&in, 1, 1.0f, &value);
      GetParam()->f32.format[f].cast(&value, 1, 1.0f, &back);
      EXPECT_EQ(back, in) << traits(kCastFormats[f]).name;
    }
  }
}

// The vendor's saturating conversion: ties to even at the top, infinities to
// the largest value.
TEST_P(CastKernelsTest, F11_F12_OverflowSaturates) {
  const float x[] = {448, 464, 464.00003f, 465, 1e4f, -1e4f, kInf, -kInf};
  const Codes e4m3 = {0x7e, 0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x7e, 0xfe};
  const Codes fnuz = {0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0xff, 0x7f, 0xff};
  Codes got(8);
  GetParam()->f32.format[0].cast(x, 8, 1.0f, got.data());
  EXPECT_EQ(got, e4m3);
  GetParam()->f32.format[2].cast(x, 8, 1.0f, got.data());
  EXPECT_EQ(got, fnuz);
  const float wide[] = {61439, 61440, 57344, kInf, -61440, 0, 0, 0};
  GetParam()->f32.format[1].cast(wide, 8, 1.0f, got.data());
  EXPECT_EQ(got, (Codes{0x7b, 0x7b, 0x7b, 0x7b, 0xfb, 0, 0, 0}));
}

// One below, on and above the vector widths and blocks; a guard byte behind.
constexpr std::int64_t kLengths[] = {0,   1,   7,   8,   9,   15,  16,
                                     17,  31,  32,  33,  63,  64,  65,
                                     127, 128, 129, 255, 256, 257, 1000};

template <typename T>
std::vector<T> row(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 40.0f);
  std::vector<T> x;
  for (std::int64_t i = 0; i < n; ++i) {
    const float v = i % 37 == 5 ? kNan : normal(random);
    if constexpr (sizeof(T) == 4)
      x.push_back(v);
    else  // small finite codes of either half format
      x.push_back(static_cast<T>(random() & 0xbfff));
  }
  return x;
}

template <typename T>
void expect_rows_agree(const CastType<T>& got, const CastType<T>& want) {
  for (std::int64_t n : kLengths) {
    const std::vector<T> x = row<T>(n, 3);
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> factors(size + 1);
    for (std::size_t i = 0; i <= size; ++i)
      factors[i] = 0.25f + static_cast<float>(i % 11);
    SCOPED_TRACE(n);
    EXPECT_EQ(got.amax(x.data(), n), want.amax(x.data(), n));
    for (std::int64_t block : {16, 32, 128}) {
      std::vector<float> a(size + 1), b(size + 1);
      got.amax_blocks(x.data(), n, block, a.data());
      want.amax_blocks(x.data(), n, block, b.data());
      EXPECT_EQ(a, b) << block;
    }
    for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
      Codes a(size + 1, 0xaa), b = a;
      const auto check = [&](const char* what) {
        EXPECT_EQ(a, b) << what << " " << traits(kCastFormats[f]).name;
        EXPECT_EQ(a.back(), 0xaa) << what;
      };
      got.format[f].cast_blocks(x.data(), n, 128, factors.data(), a.data());
      want.format[f].cast_blocks(x.data(), n, 128, factors.data(), b.data());
      check("cast_blocks");
      std::vector<T> v(size + 1, T{1}), w = v;
      const auto same = [&](const char* what) {
        EXPECT_EQ(std::memcmp(v.data(), w.data(), v.size() * sizeof(T)), 0)
            << what;
      };
      got.format[f].decode_each(a.data(), n, factors.data(), v.data());
      want.format[f].decode_each(a.data(), n, factors.data(), w.data());
      same("decode_each");
      got.format[f].decode_blocks(a.data(), n, 32, factors.data(), v.data());
      want.format[f].decode_blocks(a.data(), n, 32, factors.data(), w.data());
      same("decode_blocks");
    }
  }
}
TEST_P(CastKernelsTest, RowsOfEveryLengthAgreeWithThePlainLoops) {
  const CastKernels& plain = *all_cast_kernels().back();
  expect_rows_agree(GetParam()->f32, plain.f32);
  expect_rows_agree(GetParam()->bf16, plain.bf16);
  expect_rows_agree(GetParam()->f16, plain.f16);
}

// Rows further apart than they are wide; NaN among the first of them.
template <typename T>
void expect_tiles_agree(const CastType<T>& got, const CastType<T>& want,
                        T nan) {
  constexpr std::int64_t kRows = 7;
  for (std::int64_t columns : kLengths) {
    const std::int64_t stride = columns + 3, out_stride = columns + 5;
    std::vector<T> x = row<T>(kRows * stride, 5);
    for (std::size_t i = 0; i < x.size() / 2; i += 61) x[i] = nan;
    std::vector<float> factors;
    for (std::int64_t c = 0; c < columns; ++c)
      factors.push_back(c == 130 ? -0.5f : 0.25f + static_cast<float>(c % 11));
    for (std::int64_t rows : {std::int64_t{0}, std::int64_t{1}, kRows}) {
      SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns));
      std::vector<float> most(factors.size() + 1, 1.5f), most_want = most;
      got.amax_columns(x.data(), stride, rows, columns, most.data());
      want.amax_columns(x.data(), stride, rows, columns, most_want.data());
      EXPECT_EQ(most, most_want);
      for (std::size_t f = 0; f < kCastFormats.size(); ++f) {
        Codes a(static_cast<std::size_t>(kRows * out_stride), 0xaa), b = a;
        got.format[f].cast_columns(x.data(), stride, rows, columns,
                                   factors.data(), a.data(), out_stride);
        want.format[f].cast_columns(x.data(), stride, rows, columns,
                                    factors.data(), b.data(), out_stride);
        EXPECT_EQ(a, b) << traits(kCastFormats[f]).name;
      }
    }
  }
}
TEST_P(CastKernelsTest, ColumnsOfEveryTileAgreeWithThePlainLoops) {
  const CastKernels& plain = *all_cast_kernels().back();
  expect_tiles_agree(GetParam()->f32, plain.f32, kNan);
  expect_tiles_agree(GetParam()->bf16, plain.bf16, std::uint16_t{0xffc1});
  expect_tiles_agree(GetParam()->f16, plain.f16, std::uint16_t{0xfc01});
}

TEST_P(CastKernelsTest, AmaxSkipsNanAndKeepsInfinity) {
  const float x[] = {kNan, -3.0f, 2.0f, -kNan};
  EXPECT_EQ(GetParam()->f32.amax(x, 4), 3.0f);
  EXPECT_EQ(GetParam()->f32.amax(x, 1), 0.0f);
  EXPECT_EQ(GetParam()->f32.amax(x, 0), 0.0f);
  const float y[] = {1.0f, -kInf, kNan};
  EXPECT_EQ(GetParam()->f32.amax(y, 3), kInf);
  const std::uint16_t bf16[] = {0xffc0, 0xc040, 0x7fff, 0x0001};  // -3
  EXPECT_EQ(GetParam()->bf16.amax(bf16, 4), 3.0f);
  const std::uint16_t f16[] = {0x7e00, 0xc200, 0xfc01, 0x0001};  // -3
  EXPECT_EQ(GetParam()->f16.amax(f16, 4), 3.0f);
}

TEST_P(CastKernelsTest, RoundsToHalfFormats) {
  for (DType like : {DType::kE5M2, DType::kF16, DType::kBF16}) {
    std::vector<float> x =
        hard_floats(like == DType::kE5M2 ? like : DType::kE4M3FN);
    if (like != DType::kE5M2) {  // every value with its upper midpoint
      for (unsigned code = 0; code < 0xffff; ++code) {
        const double v = decode_float(like, code);
        const double w = decode_float(like, code + 1);
        x.push_back(static_cast<float>(v));
        x.push_back(static_cast<float>((v + w) / 2));
      }
    }
    const auto n = static_cast<std::int64_t>(x.size());
    std::vector<std::uint16_t> bf16(x.size()), f16(x.size());
    GetParam()->to_bf16(x.data(), n, bf16.data());
    GetParam()->to_f16(x.data(), n, f16.data());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto v = static_cast<double>(x[i]);
      ASSERT_EQ(bf16[i], encode_float(DType::kBF16, v)) << v;
      ASSERT_EQ(f16[i], encode_float(DType::kF16, v)) << v;
    }
  }
}

TEST_P(CastKernelsTest, TransposesEveryShape) {
  for (std::int64_t rows : {1, 15, 16, 17, 63, 64, 65, 130}) {
    for (std::int64_t columns : {1, 15, 16, 17, 255, 256, 300}) {
      const std::int64_t in_stride = columns + 3, out_stride = rows + 5;
      Codes in(static_cast<std::size_t>(rows * in_stride));
      for (std::size_t i = 0; i < in.size(); ++i)
        in[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
      Codes out(static_cast<std::size_t>(columns * out_stride), 0xee);
      GetParam()->transpose(in.data(), in_stride, rows, columns, out.data(),
                            out_stride);
      for (std::int64_t c = 0; c < columns; ++c)
        for (std::int64_t r = 0; r < out_stride; ++r)
          ASSERT_EQ(
              out[static_cast<std::size_t>(c * out_stride + r)],
              r < rows ? in[static_cast<std::size_t>(r * in_stride + c)] : 0xee)
              << rows << "x" << columns << " at " << r << "," << c;
    }
  }
}

// Large destinations may be written past the cache.
TEST_P(CastKernelsTest, TransposesIntoLargeMatrices) {
  constexpr std::int64_t kRows = 4096, kColumns = 80;
  Codes in(static_cast<std::size_t>(kRows * kColumns)), out(in.size() + 128);
  for (std::size_t i = 0; i < in.size(); ++i)
    in[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
  std::uint8_t* aligned =
      out.data() + 64 - reinterpret_cast<std::uintptr_t>(out.data()) % 64;
  for (std::uint8_t* to : {aligned, aligned + 1}) {
    GetParam()->transpose(in.data(), kColumns, kRows, kColumns, to, kRows);
    for (std::int64_t c = 0; c < kColumns; ++c)
      for (std::int64_t r = 0; r < kRows; ++r)
        ASSERT_EQ(to[c * kRows + r],
                  in[static_cast<std::size_t>(r * kColumns + c)]);
  }
}

}  // namespace
}  // namespace assay
