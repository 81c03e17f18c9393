// The standards of conformance cases: what one rounding in fp32 and a few
// turned codes may do passes, what the next worse thing does fails.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::judge;
using test::normal;
using test::text;
using test::Values;

// Of bf16: 8 significant bits, nearest.
double round_bf16(double v) {
  int exponent = 0;
  const double mantissa = std::frexp(v, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8);
}

void expect(const char* standard, DType dtype, const Values& golden,
            const Values& target, Verdict verdict) {
  const Judgement j = judge(standard, dtype, golden, target);
  EXPECT_EQ(j.verdict, verdict) << standard << ": " << text(j);
}

// One in 256 elements an ulp (2^-7) off: sqrt(1/256) 2^-7 = 2^-11 of the norm;
// one in 32: 2^-9.5. Signs alternate, so that neither bias nor alpha decide.
TEST(ConformStandards, SomeUlpsOfBf16) {
  const auto off = [](int every) {
    Values target(4096, 1.0);
    for (int i = 0; i < 4096; i += every)
      target[i] = i / every % 2 ? 1.0078125 : 0.9921875;
    return target;
  };
  const Values golden(4096, 1.0);
  expect("fp32-inside", DType::kBF16, golden, off(256), Verdict::kMatch);
  expect("fp32-inside", DType::kBF16, golden, off(32), Verdict::kMismatch);
  expect("assay", DType::kBF16, golden, off(32), Verdict::kMatch);
}

// Two halves of a sum rounded to bf16 before they are added: invisible to
// `assay`, whose norm bound is 2 u, not to fp32-inside.
TEST(ConformStandards, SplitKInBf16) {
  const Values a = normal(8192), b = normal(8192, 7);
  Values golden, target;
  for (std::size_t i = 0; i < a.size(); ++i) {
    golden.push_back(round_bf16(a[i] + b[i]));
    target.push_back(round_bf16(round_bf16(a[i]) + round_bf16(b[i])));
  }
  expect("fp32-inside", DType::kBF16, golden, target, Verdict::kMismatch);
}

// A share of values moved by the step of the codes: 1 in 1024 by 2^-3.5 is
// 2^-8.5 of the norm; all of them by the rms error of e4m3, 2.6 %, is what no
// quantisation at all looks like.
TEST(ConformStandards, TurnedCodes) {
  const Values golden = normal(8192), noise = normal(8192, 9);
  Values turned = golden, unquantised = golden, fp4 = golden;
  for (std::size_t i = 0; i < golden.size(); ++i) {
    if (i % 1024 == 0) turned[i] += 0.088 * golden[i];
    unquantised[i] += 0.026 * std::fabs(golden[i]) * noise[i];
    fp4[i] += 0.1 * std::fabs(golden[i]) * noise[i];
  }
  expect("fp32-inside", DType::kF32, golden, turned, Verdict::kMismatch);
  expect("code-flips-fp8", DType::kF32, golden, turned, Verdict::kMatch);
  expect("code-flips-fp8", DType::kF32, golden, unquantised,
         Verdict::kMismatch);
  expect("code-flips-fp4", DType::kF32, golden, unquantised, Verdict::kMatch);
  expect("code-flips-fp4", DType::kF32, golden, fp4, Verdict::kMismatch);
}

// 2^-6 = 0.0156 of each value: the small slot's stale row is seen beside a
// large one.
TEST(ConformStandards, HistoriesSlotBySlot) {
  expect("amax-history", DType::kF32, {1000, 0.02, 0}, {1001, 0.0202, 0},
         Verdict::kMatch);
  expect("amax-history", DType::kF32, {1000, 0.02, 0}, {1000, 0.015, 0},
         Verdict::kMismatch);
  expect("amax-history", DType::kF32, {1000, 0.02, 0}, {1000, 0.02, 1e-9},
         Verdict::kMismatch);
}

}  // namespace
}  // namespace assay
