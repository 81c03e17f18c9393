// Every GEMM unit of this machine against the plain loops and against numbers
// worked by hand.
#include "assay/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/core/tensor.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

// A matrix, and how a GEMM sees it.
struct Operand {
  Tensor tensor, scales;
  GemmView view;
};

template <typename Value>
Operand make_operand(DType dtype, std::int64_t outer, std::int64_t k,
                     bool k_contiguous, Value value) {
  Operand o;
  o.tensor =
      Tensor::zeros(dtype, k_contiguous ? Shape{outer, k} : Shape{k, outer});
  o.view = {dtype, o.tensor.view.data, outer,
            k,     k_contiguous,       k_contiguous ? k : outer};
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < k; ++j)
      store_from_double(dtype, value(i, j), o.tensor.mutable_data(),
                        k_contiguous ? i * k + j : j * outer + i);
  return o;
}

// Uniform in [-1, 1); the same for the same place and seed.
double uniform(std::uint64_t seed, std::int64_t i, std::int64_t j) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u +
                    static_cast<std::uint64_t>(i) * 0xbf58476d1ce4e5b9u +
                    static_cast<std::uint64_t>(j) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return static_cast<double>(x >> 11) * 0x1p-52 - 1;
}

Operand random_operand(DType dtype, std::int64_t outer, std::int64_t k,
                       bool k_contiguous, std::uint64_t seed) {
  return make_operand(dtype, outer, k, k_contiguous,
                      [=](auto i, auto j) { return uniform(seed, i, j); });
}

// Integers in [-4, 4]: every sum below is exact in fp32.
Operand integer_operand(DType dtype, std::int64_t outer, std::int64_t k,
                        bool k_contiguous, std::uint64_t seed) {
  return make_operand(dtype, outer, k, k_contiguous, [=](auto i, auto j) {
    return std::round(4 * uniform(seed, i, j));
  });
}

Tensor multiply(const GemmKernels& table, GemmProblem p,
                DType d_dtype = DType::kF32) {
  Tensor d = Tensor::empty(d_dtype, {p.row.outer, p.column.outer});
  std::memset(d.mutable_data(), 0x5a, d.view.bytes().size());
  p.epilogue.d = d.mutable_data();
  p.epilogue.d_dtype = d_dtype;
  table.gemm(p);
  return d;
}

Tensor multiply(const GemmKernels& table, const Operand& row,
                const Operand& column, DType d_dtype = DType::kF32) {
  GemmProblem p;
  p.row = row.view;
  p.column = column.view;
  return multiply(table, p, d_dtype);
}

const GemmKernels& plain() { return *all_gemm_kernels().back(); }

double at(const Tensor& t, std::int64_t i) {
  return load_as_double(t.dtype(), t.view.data, i);
}

void expect_equal(const Tensor& ours, const Tensor& expected,
                  const std::string& what) {
  ASSERT_EQ(ours.shape(), expected.shape());
  for (std::int64_t i = 0; i < ours.numel(); ++i) {
    const double x = at(ours, i), y = at(expected, i);
    ASSERT_TRUE(x == y || (std::isnan(x) && std::isnan(y)))
        << what << " at " << i << ": " << x << ", expected " << y;
  }
}

class Gemm : public testing::TestWithParam<const GemmKernels*> {};

INSTANTIATE_TEST_SUITE_P(Units, Gemm,
                         testing::ValuesIn(all_gemm_kernels().begin(),
                                           all_gemm_kernels().end()),
                         [](const auto& info) {
                           return std::string(info.param->isa) + "_" +
                                  info.param->unit;
                         });

constexpr DType kDTypes5[] = {DType::kF32, DType::kBF16, DType::kF16,
                              DType::kE4M3FN, DType::kE5M2};

// One below, on and above the sides of the tiles (6, 12, 16, 32), the scale
// block (128), the packing's run and the chunk (512).
TEST_P(Gemm, IntegersAreExactBesideEveryTileSize) {
  const Shape sides = {1, 5, 12, 13, 31, 32, 33};
  const Shape ks = {1, 2, 31, 32, 33, 127, 128, 129, 511, 513};
  std::uint64_t seed = 1;
  for (DType dtype : kDTypes5) {
    for (bool row_k : {true, false}) {
      for (bool column_k : {true, false}) {
        for (std::int64_t k : ks) {
          const std::int64_t m = sides[seed % sides.size()];
          const std::int64_t n = sides[seed / 3 % sides.size()];
          ++seed;
          const Operand row = integer_operand(dtype, m, k, row_k, seed);
          const Operand column =
              integer_operand(dtype, n, k, column_k, seed + 1000);
          expect_equal(multiply(*GetParam(), row, column),
                       multiply(plain(), row, column),
                       std::string(traits(dtype).name) + " m " +
                           std::to_string(m) + " n " + std::to_string(n) +
                           " k " + std::to_string(k));
        }
      }
    }
  }
}

TEST_P(Gemm, IntegersAreExactBesideTheBlocksOfD) {
  for (std::int64_t m : {127, 129, 257, 513}) {
    const std::int64_t n = 640 - m;
    const Operand row = integer_operand(DType::kBF16, m, 40, true, 1);
    const Operand column = integer_operand(DType::kBF16, n, 40, false, 2);
    expect_equal(multiply(*GetParam(), row, column),
                 multiply(plain(), row, column), "m " + std::to_string(m));
  }
}

// |error| <= 33 u sum |a b|, the bound of the reference vectors (2e-6).
TEST_P(Gemm, RandomSumsAreWithinTheForwardBound) {
  for (DType dtype : kDTypes5) {
    const std::int64_t m = 13, n = 33, k = 1100;
    const Operand row = random_operand(dtype, m, k, true, 5);
    const Operand column = random_operand(dtype, n, k, false, 6);
    const Tensor ours = multiply(*GetParam(), row, column);
    const auto value = [](const Operand& o, std::int64_t i, std::int64_t j) {
      return load_as_double(
          o.view.dtype, o.view.data,
          o.view.k_contiguous ? i * o.view.stride + j : j * o.view.stride + i);
    };
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const double product = value(row, i, l) * value(column, j, l);
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(at(ours, i * n + j), sum, 2e-6 * magnitude);
      }
    }
  }
}

TEST_P(Gemm, WithoutRowsColumnsOrKEverythingIsDefined) {
  EXPECT_EQ(multiply(*GetParam(), random_operand(DType::kBF16, 0, 8, true, 1),
                     random_operand(DType::kBF16, 5, 8, true, 2))
                .numel(),
            0);
  EXPECT_EQ(multiply(*GetParam(), random_operand(DType::kBF16, 5, 8, true, 1),
                     random_operand(DType::kBF16, 0, 8, true, 2))
                .numel(),
            0);
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    const Tensor d =
        multiply(*GetParam(), random_operand(dtype, 35, 0, true, 1),
                 random_operand(dtype, 3, 0, false, 2));
    for (std::int64_t i = 0; i < d.numel(); ++i) ASSERT_EQ(at(d, i), 0);
  }
}

// bf16 running sums of ones stop at 256.
TEST_P(Gemm, F48_OnesAreNotSummedInBf16) {
  for (DType dtype : kDTypes5) {
    const auto one = [](auto, auto) { return 1.0; };
    const Operand row = make_operand(dtype, 1, 1024, true, one);
    const Operand column = make_operand(dtype, 1, 1024, true, one);
    EXPECT_EQ(at(multiply(*GetParam(), row, column, DType::kBF16), 0), 1024);
  }
}

// Two halves of K whose sums are 1000.5 and -1000: bf16 partial sums give 0.
TEST_P(Gemm, F19_PartialSumsAreNotStoredInBf16) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const std::int64_t k = 2048;
    const Operand row =
        make_operand(dtype, 1, k, true, [](auto, std::int64_t j) {
          return j == 0 ? 1000.0 : j == 1 ? 0.5 : j == k / 2 ? -1000.0 : 0.0;
        });
    const Operand column =
        make_operand(dtype, 1, k, true, [](auto, auto) { return 1.0; });
    EXPECT_EQ(at(multiply(*GetParam(), row, column), 0), 0.5);
  }
}

// The fp32 product of the report, against 0.174051 of bf16 inputs.
TEST_P(Gemm, F49_Fp32IsNeitherTf32NorBf16) {
  const double a[] = {.3744, .1656, .4707, .1663};
  const double b[] = {.3946, .1186, .1569, .3145};
  const Operand row = make_operand(
      DType::kF32, 2, 2, true, [&](auto i, auto j) { return a[i * 2 + j]; });
  const Operand column = make_operand(
      DType::kF32, 2, 2, false, [&](auto i, auto j) { return b[j * 2 + i]; });
  const Tensor d = multiply(*GetParam(), row, column);
  EXPECT_NEAR(at(d, 0), .3744 * .3946 + .1656 * .1569, 3e-8);
  EXPECT_NEAR(at(d, 3), .4707 * .1186 + .1663 * .3145, 3e-8);
}

// A subnormal operand counts: 2^-130 2^100 = 2^-30.
TEST_P(Gemm, SubnormalOperandsDoNotVanish) {
  const Operand row = make_operand(
      DType::kBF16, 33, 64, true,
      [](auto i, auto j) { return i == 7 && j == 3 ? 0x1.8p-130 : 0.0; });
  const Operand column =
      make_operand(DType::kBF16, 5, 64, true,
                   [](auto, auto j) { return j == 3 ? 0x1p100 : 0x1p-20; });
  const Tensor d = multiply(*GetParam(), row, column);
  for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(at(d, 7 * 5 + j), 0x1.8p-30);
}

// Products and sums below the smallest normal fp32 stay.
TEST_P(Gemm, SubnormalSumsDoNotVanish) {
  const Operand row = make_operand(DType::kBF16, 2, 32, true,
                                   [](auto, auto) { return 0x1p-70; });
  const Operand column = make_operand(DType::kBF16, 2, 32, true,
                                      [](auto, auto) { return 0x1p-75; });
  const Tensor d = multiply(*GetParam(), row, column);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(at(d, i), 0x1p-140);
}

// The sum of two normal products may be subnormal: 1.5 2^-126 - 2^-126.
TEST_P(Gemm, CancelledSumsDoNotVanish) {
  const Operand row = make_operand(DType::kBF16, 1, 2, true, [](auto, auto j) {
    return j ? -0x1p-63 : 0x1.8p-63;
  });
  const Operand column = make_operand(DType::kBF16, 1, 2, true,
                                      [](auto, auto) { return 0x1p-63; });
  EXPECT_EQ(at(multiply(*GetParam(), row, column), 0), 0x1p-127);
}

// So wide a range that no power of two makes room for it.
TEST_P(Gemm, TheWholeRangeOfBf16AtOnce) {
  const auto value = [](std::int64_t i, std::int64_t j) {
    return i == j ? (i % 2 ? 0x1p-133 : 0x1p60) : 0.0;
  };
  const Operand row = make_operand(DType::kBF16, 4, 4, true, value);
  const Operand column =
      make_operand(DType::kBF16, 4, 4, true,
                   [](auto, auto j) { return j % 2 ? 0x1p10 : 0x1p-133; });
  const Tensor d = multiply(*GetParam(), row, column);
  for (std::int64_t i = 0; i < 16; ++i)
    EXPECT_EQ(at(d, i), i / 4 % 2 ? 0x1p-123 : 0x1p-73);
}

TEST_P(Gemm, NotFiniteValuesReachTheirRowsOnly) {
  const double inf = std::numeric_limits<double>::infinity();
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kE5M2}) {
    Operand row = integer_operand(dtype, 4, 40, true, 3);
    store_code(dtype, max_finite_code(dtype) + 1, row.tensor.mutable_data(),
               40 + 2);
    store_code(dtype, nan_code(dtype), row.tensor.mutable_data(), 80 + 39);
    const Operand column =
        make_operand(dtype, 3, 40, true, [](auto, auto) { return 1.0; });
    const Tensor d = multiply(*GetParam(), row, column);
    for (std::int64_t j = 0; j < 3; ++j) {
      EXPECT_TRUE(std::isfinite(at(d, j)));
      EXPECT_EQ(at(d, 3 + j), inf);
      EXPECT_TRUE(std::isnan(at(d, 6 + j)));
      EXPECT_TRUE(std::isfinite(at(d, 9 + j)));
    }
  }
}

// D = codes x 1: every code of the 8-bit formats, in all four layouts.
TEST_P(Gemm, EveryFp8CodeIsDecodedExactly) {
  for (DType dtype : {DType::kE4M3FN, DType::kE5M2}) {
    for (bool k_contiguous : {true, false}) {
      Operand row = make_operand(dtype, 256, 1, k_contiguous,
                                 [](auto, auto) { return 0.0; });
      for (int i = 0; i < 256; ++i)
        row.tensor.mutable_data<std::uint8_t>()[i] =
            static_cast<std::uint8_t>(i);
      const Operand one = make_operand(dtype, 1, 1, k_contiguous,
                                       [](auto, auto) { return 1.0; });
      Tensor expected = Tensor::empty(DType::kF32, {256, 1});
      for (int i = 0; i < 256; ++i)
        expected.mutable_data<float>()[i] = static_cast<float>(
            decode_float(dtype, static_cast<std::uint64_t>(i)));
      expect_equal(multiply(*GetParam(), row, one), expected, "row");
      expected.view.shape = {1, 256};
      expect_equal(multiply(*GetParam(), one, row), expected, "column");
    }
  }
}

// Every e2m1 code under every E4M3 scale, NaN scales included.
TEST_P(Gemm, EveryFp4CodeUnderEveryScaleIsExact) {
  Operand row;
  row.tensor = Tensor::empty(DType::kE2M1, {256, 16});
  row.scales = Tensor::empty(DType::kE4M3FN, {256, 1});
  for (int i = 0; i < 256; ++i) {
    row.scales.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
    for (int j = 0; j < 8; ++j)
      row.tensor.mutable_data<std::uint8_t>()[i * 8 + j] =
          static_cast<std::uint8_t>(2 * j | (2 * j + 1) << 4);
  }
  row.view = {DType::kE2M1,
              row.tensor.view.data,
              256,
              16,
              true,
              16,
              GemmFold::kE4M3,
              row.scales.data<std::uint8_t>(),
              1,
              1};
  // Sixteen columns that each pick one k: 6 with scale 1.
  Operand column;
  column.tensor = Tensor::zeros(DType::kE2M1, {16, 16});
  column.scales = Tensor::empty(DType::kE4M3FN, {16, 1});
  for (int i = 0; i < 16; ++i) {
    store_from_double(DType::kE2M1, 1.0, column.tensor.mutable_data(), i * 17);
    store_from_double(DType::kE4M3FN, 1.0, column.scales.mutable_data(), i);
  }
  column.view = {DType::kE2M1,
                 column.tensor.view.data,
                 16,
                 16,
                 true,
                 16,
                 GemmFold::kE4M3,
                 column.scales.data<std::uint8_t>(),
                 1,
                 1};
  Tensor expected = Tensor::empty(DType::kF32, {256, 16});
  for (std::uint64_t i = 0; i < 256; ++i)
    for (std::uint64_t j = 0; j < 16; ++j)
      expected.mutable_data<float>()[i * 16 + j] = static_cast<float>(
          decode_float(DType::kE4M3FN, i) * decode_float(DType::kE2M1, j));
  expect_equal(multiply(*GetParam(), row, column), expected, "e2m1");
}

// Operands of MXFP8 whose scales the test chooses; all positive, so that sums
// have few roundings relative to themselves.
Operand mx_operand(std::int64_t outer, std::int64_t k, bool k_contiguous,
                   std::vector<std::uint8_t> codes) {
  Operand o =
      make_operand(DType::kE4M3FN, outer, k, k_contiguous, [](auto i, auto j) {
        return 1 + std::fabs(std::round(4 * uniform(9, i, j)));
      });
  const std::int64_t blocks = k / 32;
  o.scales = Tensor::empty(DType::kE8M0, {outer * blocks});
  for (std::int64_t i = 0; i < outer * blocks; ++i)
    o.scales.mutable_data<std::uint8_t>()[i] =
        codes[static_cast<std::size_t>(i) % codes.size()];
  o.view.fold = GemmFold::kE8M0;
  o.view.scales = o.scales.data<std::uint8_t>();
  o.view.scale_outer = k_contiguous ? blocks : 1;
  o.view.scale_k = k_contiguous ? 1 : outer;
  return o;
}

// 2^-127 (code 0, trap T8), 2^127 and what lies between; 0xff makes NaN.
TEST_P(Gemm, MxScalesAtTheEndsOfTheirRange) {
  const std::vector<std::uint8_t> sets[] = {
      {127}, {127, 120, 134}, {0},       {0, 3},
      {254}, {254, 0, 127},   {200, 60}, {127, 127, 255}};
  for (bool row_k : {true, false}) {
    for (const auto& row_codes : sets) {
      for (const auto& column_codes : sets) {
        const Operand row = mx_operand(35, 96, row_k, row_codes);
        const Operand column = mx_operand(33, 96, !row_k, column_codes);
        const Tensor ours = multiply(*GetParam(), row, column);
        const Tensor expected = multiply(plain(), row, column);
        for (std::int64_t i = 0; i < ours.numel(); ++i) {
          const double x = at(ours, i), y = at(expected, i);
          if (std::isnan(y)) {
            ASSERT_TRUE(std::isnan(x));
          } else if (std::isfinite(y)) {
            ASSERT_NEAR(x, y, 1e-6 * y + 0x1p-149)
                << int{row_codes[0]} << " " << int{column_codes[0]};
          } else {
            ASSERT_EQ(x, y);
          }
        }
      }
    }
  }
}

// Partial sums are exact integers: the result must be the documented order's,
// bit for bit.
TEST_P(Gemm, BlockScalesAreAppliedInTheDocumentedOrder) {
  for (std::int64_t k : {16, 128, 144, 528}) {
    for (bool column_first : {false, true}) {
      const std::int64_t m = 33, n = 35, blocks = (k + 127) / 128;
      const Operand row = integer_operand(DType::kE4M3FN, m, k, true, 11);
      const Operand column = integer_operand(DType::kE5M2, n, k, true, 12);
      std::vector<float> row_scales, column_scales;
      for (std::int64_t i = 0; i < blocks * m; ++i)
        row_scales.push_back(static_cast<float>(uniform(13, i, 0)));
      for (std::int64_t i = 0; i < blocks * n; ++i)
        column_scales.push_back(static_cast<float>(uniform(14, i, 0)));
      GemmProblem p;
      p.row = row.view;
      p.column = column.view;
      p.block = {row_scales.data(), column_scales.data(), column_first};
      const Tensor ours = multiply(*GetParam(), p);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (std::int64_t b = 0; b < blocks; ++b) {
            float partial = 0;
            for (std::int64_t l = b * 128; l < std::min(k, b * 128 + 128); ++l)
              partial += static_cast<float>(at(row.tensor, i * k + l) *
                                            at(column.tensor, j * k + l));
            const float r = row_scales[static_cast<std::size_t>(b * m + i)];
            const float c = column_scales[static_cast<std::size_t>(b * n + j)];
            const float t = partial * (column_first ? c : r);
            sum = std::fma(t, column_first ? r : c, sum);
          }
          ASSERT_EQ(at(ours, i * n + j), double{sum}) << i << " " << j;
        }
      }
    }
  }
}

TEST_P(Gemm, BitsDoNotDependOnTheNumberOfThreads) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kE4M3FN}) {
    const Operand row = random_operand(dtype, 300, 700, true, 21);
    const Operand column = random_operand(dtype, 310, 700, false, 22);
    set_thread_count(1);
    const Tensor one = multiply(*GetParam(), row, column);
    set_thread_count(4);
    const Tensor four = multiply(*GetParam(), row, column);
    set_thread_count(0);
    EXPECT_EQ(
        std::memcmp(one.view.data, four.view.data, one.view.bytes().size()), 0);
  }
}

// Every bf16 value and every fp8 tie, through the epilogue's rounding.
TEST_P(Gemm, TheEpilogueRoundsAsTheFormatsSay) {
  const std::int64_t m = 65536;
  const Operand row = make_operand(DType::kF32, m, 1, true, [](auto i, auto) {
    return decode_float(DType::kBF16, static_cast<std::uint64_t>(i));
  });
  const Operand one =
      make_operand(DType::kF32, 1, 1, true, [](auto, auto) { return 1.0; });
  for (DType dtype : {DType::kE4M3FN, DType::kE5M2, DType::kF16}) {
    const Tensor d = multiply(*GetParam(), row, one, dtype);
    for (std::int64_t i = 0; i < m; ++i) {
      const double x = at(row.tensor, i);
      const auto expected = encode_float(dtype, x);
      const auto ours = load_code(dtype, d.view.data, i);
      if (is_nan(x))
        ASSERT_TRUE(is_nan_code(dtype, ours));
      else if (x != 0)  // 0 + -0 is +0
        ASSERT_EQ(ours, expected) << traits(dtype).name << " " << x;
    }
  }
  // Halfway between neighbours of bf16, and just beside.
  const Operand ties = make_operand(DType::kF32, m, 1, true, [](auto i, auto) {
    const auto bits = static_cast<std::uint32_t>(i) << 16 | 0x7fffu;
    return double{
        std::bit_cast<float>(bits + static_cast<std::uint32_t>(i % 3))};
  });
  const Tensor d = multiply(*GetParam(), ties, one, DType::kBF16);
  for (std::int64_t i = 0; i < m; ++i) {
    const double x = at(ties.tensor, i);
    if (is_nan(x))
      ASSERT_TRUE(std::isnan(at(d, i)));
    else
      ASSERT_EQ(at(d, i), round_to(DType::kBF16, x));
  }
}

TEST_P(Gemm, EpilogueInItsOrder) {
  const std::int64_t m = 35, n = 41, k = 24;
  const Operand row = random_operand(DType::kF32, m, k, true, 31);
  const Operand column = random_operand(DType::kF32, n, k, true, 32);
  const Operand c = random_operand(DType::kBF16, m, n, true, 33);
  const Operand pre = random_operand(DType::kBF16, m, n, true, 34);
  std::vector<float> bias, row_alpha;
  for (std::int64_t j = 0; j < n; ++j)
    bias.push_back(static_cast<float>(uniform(35, j, 0)));
  for (std::int64_t i = 0; i < m; ++i)
    row_alpha.push_back(static_cast<float>(1 + uniform(36, i, 0)));
  for (GemmActivation activation :
       {GemmActivation::kNone, GemmActivation::kGelu, GemmActivation::kDGelu}) {
    GemmProblem p;
    p.row = row.view;
    p.column = column.view;
    p.epilogue.alpha = 1.5;
    p.epilogue.row_alpha = row_alpha.data();
    p.epilogue.beta = -0.5f;
    p.epilogue.c = c.tensor.view.data;
    p.epilogue.c_dtype = DType::kBF16;
    p.epilogue.bias = bias.data();
    p.epilogue.activation = activation;
    const auto run = [&](const GemmKernels& table, Tensor& aux, float& amax,
                         std::vector<double>& sums) {
      aux = activation == GemmActivation::kDGelu
                ? pre.tensor
                : Tensor::empty(DType::kF32, {m, n});
      sums.assign(static_cast<std::size_t>(n), 0);
      p.epilogue.aux = aux.mutable_data();
      p.epilogue.aux_dtype = aux.dtype();
      p.epilogue.amax = &amax;
      p.epilogue.column_sums = sums.data();
      return multiply(table, p);
    };
    Tensor aux, aux_plain;
    float amax = -1, amax_plain = -1;
    std::vector<double> sums, sums_plain;
    const Tensor ours = run(*GetParam(), aux, amax, sums);
    const Tensor expected = run(plain(), aux_plain, amax_plain, sums_plain);
    for (std::int64_t i = 0; i < m * n; ++i)
      ASSERT_NEAR(at(ours, i), at(expected, i), 3e-6);
    if (activation == GemmActivation::kGelu)
      for (std::int64_t i = 0; i < m * n; ++i)
        ASSERT_NEAR(at(aux, i), at(aux_plain, i), 3e-6);
    EXPECT_NEAR(amax, amax_plain, 3e-6);
    for (std::size_t j = 0; j < sums.size(); ++j)
      EXPECT_NEAR(sums[j], sums_plain[j], 1e-4);
  }
}

// The tanh form at the points of the report; 1 + tanh would lose the tail.
TEST_P(Gemm, F28_GeluIsTheTanhFormToItsTail) {
  const double x[] = {-5, -3, -2, 2, 5};
  const double y[] = {-2.2918e-7, -3.6374e-3, -0.0454023, 1.9545977, 4.9999998};
  const Operand row =
      make_operand(DType::kF32, 5, 1, true, [&](auto i, auto) { return x[i]; });
  const Operand one =
      make_operand(DType::kF32, 1, 1, true, [](auto, auto) { return 1.0; });
  GemmProblem p;
  p.row = row.view;
  p.column = one.view;
  p.epilogue.activation = GemmActivation::kGelu;
  const Tensor d = multiply(*GetParam(), p);
  for (int i = 0; i < 5; ++i)
    EXPECT_NEAR(at(d, i), y[i], 2e-5 * std::fabs(y[i]));
}

// Scales whose product no fp32 holds: 2^-200 on sums of 2^120.
TEST_P(Gemm, AlphaBeyondFp32) {
  const Operand row =
      make_operand(DType::kF32, 1, 1, true, [](auto, auto) { return 0x1p60; });
  for (double alpha : {0x1.8p-200, 0x1.8p-130, 0x1.8p-120}) {
    GemmProblem p;
    p.row = p.column = row.view;
    p.epilogue.alpha = alpha;
    EXPECT_EQ(at(multiply(*GetParam(), p), 0), alpha * 0x1p120);
  }
}

// Nothing of the 0x5a5a... that the result was filled with survives: the sizes
// above fill D wholly, this one is beyond any tile (F41, F42).
TEST_P(Gemm, F42_NoPartOfTheOutputIsSkipped) {
  const Operand row =
      make_operand(DType::kBF16, 1025, 2, true, [](auto, auto) { return 1.0; });
  const Operand column =
      make_operand(DType::kBF16, 1031, 2, true, [](auto, auto) { return 1.0; });
  const Tensor d = multiply(*GetParam(), row, column, DType::kBF16);
  for (std::int64_t i = 0; i < d.numel(); ++i) ASSERT_EQ(at(d, i), 2);
}

// Sums that only a wider accumulator gets right.
TEST(GemmPlain, PrecisionsDifferAsTheyShould) {
  using enum InternalPrecision;
  const Operand row =
      make_operand(DType::kBF16, 1, 1024, true, [](auto, auto) { return 1.0; });
  const auto sum = [&](const Operand& a, InternalPrecision precision) {
    Tensor d = Tensor::empty(DType::kF32, {1, 1});
    GemmProblem p;
    p.row = a.view;
    p.column = row.view;
    p.epilogue.d = d.mutable_data();
    gemm_plain(p, precision, DType::kBF16);
    return at(d, 0);
  };
  EXPECT_EQ(sum(row, kWorking), 256);
  for (InternalPrecision p : {kF32, kF64, kCompensated, kPairwise})
    EXPECT_EQ(sum(row, p), 1024);
  // 2^24, then 1023 ones: an fp32 running sum does not move.
  const Operand steps =
      make_operand(DType::kBF16, 1, 1024, true,
                   [](auto, std::int64_t j) { return j == 0 ? 0x1p24 : 1.0; });
  EXPECT_EQ(sum(steps, kF64), 0x1p24 + 1024);  // rounded once, to even
  EXPECT_EQ(sum(steps, kCompensated), 0x1p24 + 1024);
  EXPECT_NEAR(sum(steps, kPairwise), 0x1p24 + 1023, 8);
}

}  // namespace
}  // namespace assay
