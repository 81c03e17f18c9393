// Every cause pattern on a hand-made pair, and none on plain noise.
#include "assay/metrics/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "assay/numerics/rounding.h"
#include "assay/numerics/ulp.h"
#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::make;
using test::map;
using test::normal;
using test::tensor;
using test::Values;

std::string guess(const Tensor& golden, const Tensor& target,
                  OpClass op = OpClass::kUnknown, std::string_view api = "",
                  const Tensor* input = nullptr) {
  const ErrorStats stats = compute_stats(golden.view, target.view);
  return guess_cause(golden.view, target.view, stats, op, api,
                     input ? &input->view : nullptr);
}

std::string guess(DType dtype, const Shape& shape, const Values& golden,
                  const Values& target, OpClass op = OpClass::kUnknown) {
  return guess(tensor(dtype, shape, golden), tensor(dtype, shape, target), op);
}

#define EXPECT_CAUSE(expected, cause)                                \
  do {                                                               \
    const std::string c_ = (cause);                                  \
    EXPECT_EQ(c_.rfind(std::string("likely: ") + (expected), 0), 0u) \
        << "'" << c_ << "'";                                         \
  } while (false)

constexpr DType f32 = DType::kF32;
constexpr DType bf16 = DType::kBF16;

TEST(Pattern, NothingToSay) {
  const Values x = normal(1024);
  EXPECT_EQ(guess(f32, {1024}, x, x), "");
  Values noisy = x;
  const Values e = normal(1024, 5);
  for (std::size_t i = 0; i < x.size(); ++i) noisy[i] += 1e-5 * e[i];
  EXPECT_EQ(guess(f32, {1024}, x, noisy), "");
  EXPECT_EQ(guess(f32, {32, 32}, x, normal(1024, 6)), "");
  EXPECT_EQ(guess(f32, {1024}, x, noisy, OpClass::kRandom), "");
}

TEST(Pattern, ConstantFactor) {
  const Values x = normal(1024);
  const auto times = [&](double by) {
    return map(x, [&](double v) { return v * by; });
  };
  EXPECT_CAUSE("a constant factor: target = 1.1 x golden",
               guess(f32, {1024}, x, times(1.1)));
  EXPECT_CAUSE("a constant factor: target = 2 x golden (2^1)",
               guess(f32, {1024}, x, times(2)));
  EXPECT_CAUSE(
      "a constant factor: target = 65536 x golden (2^16, as a loss scale",
      guess(f32, {1024}, x, times(65536)));
  EXPECT_CAUSE("a constant factor: target = 0.144338 x golden (1/sqrt(48))",
               guess(f32, {1024}, x, times(1 / std::sqrt(48.0))));
  EXPECT_CAUSE(
      "a constant factor: target = 0.142857 x golden (1/7, an axis size",
      guess(f32, {7, 100}, normal(700),
            map(normal(700), [](double v) { return v / 7; })));
  // Invisible element by element in bf16.
  const Values rounded = map(x, [](double v) { return round_to(bf16, v); });
  EXPECT_CAUSE("a constant factor: target = 1.00",
               guess(bf16, {1024}, rounded,
                     map(rounded, [](double v) { return 1.005 * v; })));
}

TEST(Pattern, ConstantOffset) {
  const Values x = normal(1024);
  EXPECT_CAUSE(
      "a constant offset: target = golden + 0.25",
      guess(f32, {1024}, x, map(x, [](double v) { return v + 0.25; })));
}

TEST(Pattern, SignFlip) {
  const Values x = normal(1024);
  Values y = x;
  for (std::size_t i = 0; i < 512; ++i) y[i] = -y[i];
  EXPECT_CAUSE("the sign is flipped in 512 of 1024", guess(f32, {1024}, x, y));
}

TEST(Pattern, Saturation) {
  const Values x = map(normal(1024), [](double v) { return 200 * v; });
  const auto clip = [&](double limit) {
    return map(x, [&](double v) { return std::clamp(v, -limit, limit); });
  };
  EXPECT_CAUSE("saturation at 448, the largest float8 e4m3 (",
               guess(f32, {1024}, x, clip(448)));
  EXPECT_CAUSE("saturation at 240, the largest float8 e4m3fnuz (",
               guess(f32, {1024}, x, clip(240)));
}

TEST(Pattern, F41_UnwrittenTail) {
  const Values x = normal(1024);
  Values zeros = x, sentinel = x;
  std::fill(zeros.begin() + 900, zeros.end(), 0.0);
  std::fill(sentinel.begin() + 900, sentinel.end(), -7.0);
  EXPECT_CAUSE("an unwritten tail: from flat index 900 on the target is 0",
               guess(f32, {1024}, x, zeros));
  EXPECT_CAUSE("an unwritten tail: from flat index 900 on the target is -7",
               guess(f32, {1024}, x, sentinel));
  EXPECT_CAUSE("the target was never written",
               guess(f32, {1024}, x, Values(1024, 0.0)));
}

TEST(Pattern, OneElement) {
  const Values x = normal(1024);
  Values y = x;
  y[77] += 3;
  EXPECT_CAUSE("one bad element, at flat index 77", guess(f32, {32, 32}, x, y));
}

TEST(Pattern, OneSlice) {
  const Values x = normal(32 * 16);
  Values row = x, channel = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i / 16 == 5) row[i] = 3 * x[i];
    if (i % 16 == 7) channel[i] = x[i] + x[i] * x[i];
  }
  EXPECT_CAUSE(
      "one slice only: index 5 of axis 0 (16 elements), off by the "
      "factor 3",
      guess(f32, {32, 16}, x, row));
  EXPECT_CAUSE("one slice only: index 7 of axis 1 (",
               guess(f32, {32, 16}, x, channel));
}

TEST(Pattern, OneBlockWithAStaleScale) {
  const Values x = normal(1024);
  Values y = x;
  for (std::size_t i = 256; i < 384; ++i) y[i] = 2 * x[i];
  EXPECT_CAUSE(
      "one block of 128 at flat index 256, off by the factor 2: a "
      "stale or wrong block scale",
      guess(f32, {1024}, x, y));
  y = x;
  for (std::size_t i = 96; i < 128; ++i) y[i] = x[i] / 4;
  EXPECT_CAUSE("one block of 32 at flat index 96, off by the factor 0.25",
               guess(bf16, {1024}, x, y));
}

TEST(Pattern, F66_PermutedAxes) {
  const Values x = make(8, [](std::int64_t i) { return double(i); });
  const Values nhwc = {0, 4, 1, 5, 2, 6, 3, 7};
  EXPECT_CAUSE(
      "permuted axes: the target holds the golden's axes in the order "
      "(0, 2, 3, 1), NHWC for NCHW",
      guess(f32, {1, 2, 2, 2}, x, nhwc));
  const Values y = normal(12 * 20);
  Values transposed(y.size());
  for (std::size_t i = 0; i < 12; ++i)
    for (std::size_t j = 0; j < 20; ++j) transposed[j * 12 + i] = y[i * 20 + j];
  EXPECT_CAUSE(
      "permuted axes: the target holds the golden's axes in the order "
      "(1, 0)",
      guess(f32, {12, 20}, y, transposed));
}

TEST(Pattern, InterleavedAgainstHalves) {
  const Values x = normal(16 * 8);
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i - i % 8 + (i % 8) / 2 + (i % 2) * 4];
  EXPECT_CAUSE("the last axis is interleaved where the golden has halves",
               guess(f32, {16, 8}, x, y));
  EXPECT_CAUSE("the last axis is in halves where the golden is interleaved",
               guess(f32, {16, 8}, y, x));
}

TEST(Pattern, ShiftedRows) {
  const Values x = normal(32 * 16);
  Values y = normal(32 * 16, 4);
  for (std::size_t i = 16; i < x.size(); ++i) y[i] = x[i - 16];
  EXPECT_CAUSE("shifted by 1 along axis 0", guess(f32, {32, 16}, x, y));
  // A causal mask that lets one more position through.
  const auto mask = [](std::int64_t extra) {
    return make(64, [&](std::int64_t i) {
      return i % 8 <= i / 8 + extra ? 0.0 : -1e4;
    });
  };
  EXPECT_CAUSE("shifted by ", guess(f32, {8, 8}, mask(0), mask(1)));
}

TEST(Pattern, Permutation) {
  const Values x = normal(1024);
  Values y = x;
  std::shuffle(y.begin(), y.end(), std::mt19937(3));
  EXPECT_CAUSE("a permutation: both sides hold the same values",
               guess(bf16, {1024}, x, y));
}

double gelu_erf(double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2)); }
double gelu_tanh(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(Pattern, F28_GeluVariants) {
  for (const DType dtype : {f32, bf16}) {
    const Values x =
        map(normal(1 << 14), [&](double v) { return round_to(dtype, v); });
    const Tensor erf = tensor(dtype, map(x, gelu_erf));
    const Tensor tanh = tensor(dtype, map(x, gelu_tanh));
    const Tensor input = tensor(dtype, x);
    EXPECT_CAUSE("another GELU variant: golden erf, target tanh",
                 guess(erf, tanh, OpClass::kElementwise, "gelu", &input));
    EXPECT_CAUSE(
        "another GELU variant: golden tanh, target erf",
        guess(tanh, erf, OpClass::kElementwise, "Module.act.GELU", &input));
    const std::string by_output =
        guess(erf, tanh, OpClass::kElementwise, "gelu");
    EXPECT_CAUSE("another GELU variant: the error peaks at ", by_output);
    EXPECT_NE(by_output.find("golden erf, target tanh"), std::string::npos);
    EXPECT_EQ(guess(erf, tanh, OpClass::kElementwise, "relu").find("GELU"),
              std::string::npos);
  }
}

TEST(Pattern, RopeOverOtherPairsKeepsRowNorms) {
  const std::int64_t d = 16, rows = 64;
  const Values x = normal(rows * d);
  const auto rope = [&](bool half) {
    return make(rows * d, [&](std::int64_t i) {
      const std::int64_t t = i / d, j = i % d;
      const std::int64_t pair = half ? j % (d / 2) : j / 2;
      const std::int64_t mate = half ? (j + d / 2) % d : j ^ 1;
      const bool first = half ? j < d / 2 : j % 2 == 0;
      const double a = static_cast<double>(t) *
                       std::pow(10000.0, -2.0 * static_cast<double>(pair) / d);
      const double other = x[static_cast<std::size_t>(t * d + mate)];
      return x[static_cast<std::size_t>(i)] * std::cos(a) +
             (first ? -other : other) * std::sin(a);
    });
  };
  for (const DType dtype : {f32, bf16})
    EXPECT_CAUSE("every row of the last axis keeps its norm: a rotation",
                 guess(dtype, {rows, d}, rope(true), rope(false)));
}

TEST(Pattern, RoundingTowardZero) {
  const Values x = normal(4096);
  const Values y = map(x, [](double v) {
    const double step = ulp(bf16, v);
    return std::trunc(v / step) * step;
  });
  EXPECT_CAUSE("rounding toward zero instead of to nearest: ",
               guess(bf16, {4096}, x, y));
}

TEST(Pattern, OutputDowncast) {
  const Values x = normal(1024);
  EXPECT_CAUSE("the target went through bfloat16",
               guess(f32, {1024}, x,
                     map(x, [](double v) { return round_to(bf16, v); })));
  EXPECT_CAUSE("the target went through float16",
               guess(f32, {1024}, x, map(x, [](double v) {
                       return round_to(DType::kF16, v);
                     })));
}

// The numbers of the report: bf16 inputs of an fp32 product.
TEST(Pattern, F49_InputDowncast) {
  const Values a = normal(64 * 32), b = normal(32 * 64, 2);
  const auto product = [&](DType dtype) {
    return make(64 * 64, [&](std::int64_t at) {
      double sum = 0;
      for (std::int64_t k = 0; k < 32; ++k)
        sum += round_to(dtype, a[static_cast<std::size_t>(at / 64 * 32 + k)]) *
               round_to(dtype, b[static_cast<std::size_t>(k * 64 + at % 64)]);
      return sum;
    });
  };
  EXPECT_CAUSE(
      "inputs rounded to bfloat16",
      guess(f32, {64, 64}, product(f32), product(bf16), OpClass::kGemm));
  EXPECT_CAUSE(
      "inputs rounded to TF32 or float16",
      guess(f32, {64, 64}, product(f32), product(DType::kF16), OpClass::kGemm));
  EXPECT_CAUSE("inputs rounded to bfloat16",
               guess(f32, {1}, {0.173721}, {0.174051}, OpClass::kGemm));
}

TEST(Pattern, F48_Bf16Accumulator) {
  EXPECT_CAUSE(
      "a bfloat16 accumulator",
      guess(f32, {3}, {1024, 700, 3000}, {256, 256, 512}, OpClass::kGemm));
}

TEST(Pattern, F47_Discontinuity) {
  const Values x = make(1000, [](std::int64_t i) { return double(i % 13); });
  Values y = x;
  for (const std::size_t i : {5u, 500u, 901u}) y[i] -= 1;
  EXPECT_CAUSE("a decision tipped over", guess(DType::kI32, {1000}, x, y));
}

TEST(Pattern, OverflowOfHalf) {
  const Values x = {1, 2, 70000, -80000};
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_CAUSE("overflow of float16", guess(f32, {4}, x, {1, 2, inf, -inf}));
  EXPECT_EQ(guess(f32, {4}, x, {1, inf, 70000, -80000}), "");
}

// Beyond the window: the slices around the largest error.
TEST(Pattern, LargeTensorsAreWindowed) {
  const std::int64_t rows = 5000, d = 1024;
  Tensor golden = Tensor::zeros(DType::kI8, {rows, d});
  Tensor target = Tensor::zeros(DType::kI8, {rows, d});
  for (std::int64_t i = 0; i < rows * d; ++i)
    golden.mutable_data()[i] = target.mutable_data()[i] =
        static_cast<std::byte>(i * 7 % 101);
  target.mutable_data()[4999 * d + 3] = std::byte{120};
  EXPECT_CAUSE("one bad element, at flat index 5118979: ",
               guess(golden, target));
}

}  // namespace
}  // namespace assay
