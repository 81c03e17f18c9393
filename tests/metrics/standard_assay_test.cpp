// The default standard: what it must catch, and what it must not cry about.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "assay/numerics/rounding.h"
#include "assay/numerics/ulp.h"
#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::has;
using test::judge;
using test::make;
using test::map;
using test::normal;
using test::text;
using test::Values;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

#define EXPECT_VERDICT(want, judgement)               \
  do {                                                \
    const Judgement j_ = (judgement);                 \
    EXPECT_EQ(j_.verdict, Verdict::want) << text(j_); \
    EXPECT_FALSE(j_.reasons.empty());                 \
  } while (false)

double gelu_erf(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2))); }
double gelu_tanh(double x) {
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

Values rounded(DType dtype, const Values& x) {
  return map(x, [&](double v) { return round_to(dtype, v); });
}

TEST(AssayStandard, BitwiseEqualMatches) {
  const Values x = normal(100);
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF32, x, x));
}

TEST(AssayStandard, ScaleErrorOf0_4PercentInBf16IsFoundByAlpha) {
  const Values x = rounded(DType::kBF16, normal(4096));
  const Values y = map(x, [](double v) { return v * 1.004; });
  for (const OpClass op : {OpClass::kUnknown, OpClass::kGemm,
                           OpClass::kReduction, OpClass::kElementwise}) {
    const Judgement j = judge("assay", DType::kBF16, x, y, op);
    EXPECT_EQ(j.verdict, Verdict::kMismatch) << text(j);
    EXPECT_TRUE(has(j, "alpha")) << text(j);
    EXPECT_FALSE(has(j, "element_bound")) << text(j);
  }
}

TEST(AssayStandard, HandfulOfOneUlpFlipsMatches) {
  const Values x = rounded(DType::kBF16, normal(4096));
  Values y = x;
  for (const std::size_t i : {3u, 100u, 999u, 4000u})
    y[i] += ulp(DType::kBF16, y[i]);
  for (const OpClass op : {OpClass::kUnknown, OpClass::kElementwise})
    EXPECT_VERDICT(kMatch, judge("assay", DType::kBF16, x, y, op));
}

// Half of the elements one ulp up or down, independently: two roundings of
// nearly the same number.
TEST(AssayStandard, IndependentOneUlpOnHalfMatchesReductions) {
  std::mt19937_64 bits(7);
  const Values x = rounded(DType::kBF16, normal(1 << 16));
  const Values y = map(x, [&](double v) {
    const auto r = bits() % 4;
    const double step = ulp(DType::kBF16, v);
    return r == 0 ? v + step : r == 1 ? v - step : v;
  });
  for (const OpClass op :
       {OpClass::kReduction, OpClass::kGemm, OpClass::kUnknown})
    EXPECT_VERDICT(kMatch, judge("assay", DType::kBF16, x, y, op));
}

// Rounding toward zero moves every element the same way.
TEST(AssayStandard, TruncationInsteadOfNearestIsFound) {
  const Values exact = normal(1 << 14);
  const Values y = map(exact, [](double v) {
    const double step = ulp(DType::kBF16, v);
    return std::trunc(v / step) * step;
  });
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kBF16, exact, y, OpClass::kReduction));
}

TEST(AssayStandard, F28_GeluTanhAgainstErfIsAMismatch) {
  const Values x = normal(4096);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    const Values in = rounded(dtype, x);
    EXPECT_VERDICT(kMismatch, judge("assay", dtype, map(in, gelu_erf),
                                    map(in, gelu_tanh), OpClass::kElementwise));
  }
}

// GELU computed in fp32: 1 + erf(x) loses all but a few bits below x = -4.
TEST(AssayStandard, GeluComputedInFp32Matches) {
  const Values x = rounded(
      DType::kF32, map(normal(1 << 14), [](double v) { return 2 * v; }));
  const auto in_fp32 = [](double v) {
    const float f = static_cast<float>(v);
    return static_cast<double>(f * 0.5f *
                               (1.0f + std::erf(f * 0.70710678118654752440f)));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Values in = rounded(dtype, x);
    EXPECT_VERDICT(kMatch, judge("assay", dtype, map(in, gelu_erf),
                                 map(in, in_fp32), OpClass::kElementwise));
  }
}

TEST(AssayStandard, RopePairingErrorIsAMismatch) {
  const std::int64_t d = 64;
  const Values x = normal(64 * d);
  const auto rope = [&](bool half) {
    return make(64 * d, [&](std::int64_t i) {
      const std::int64_t t = i / d, j = i % d;
      const std::int64_t pair = half ? j % (d / 2) : j / 2;
      const std::int64_t mate = half ? (j + d / 2) % d : j ^ 1;
      const bool first = half ? j < d / 2 : j % 2 == 0;
      const double a = static_cast<double>(t) *
                       std::pow(10000.0, -2.0 * static_cast<double>(pair) / d);
      const double other = x[static_cast<std::size_t>(t * d + mate)];
      const double self = x[static_cast<std::size_t>(i)];
      return self * std::cos(a) + (first ? -other : other) * std::sin(a);
    });
  };
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kBF16, rope(true),
                                  rope(false), OpClass::kElementwise));
}

TEST(AssayStandard, F63_ZerosInsteadOfTinyValuesFail) {
  const Values golden(4096, 2.5e-6), zeros(4096, 0.0);
  for (const OpClass op : {OpClass::kReduction, OpClass::kUnknown})
    EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, golden, zeros, op));
}

TEST(AssayStandard, OneBadElementOfAMillionFails) {
  const Values x = normal(1 << 20);
  Values y = x;
  y[12345] += 0.5;
  const Judgement j = judge("assay", DType::kBF16, x, y);
  EXPECT_EQ(j.verdict, Verdict::kMismatch);
  EXPECT_EQ(j.reasons[0].criterion, "element_bound");
  EXPECT_EQ(j.reasons[0].index, 12345);
  EXPECT_NE(j.reasons[0].text.find("flat index 12345"), std::string::npos);
}

TEST(AssayStandard, F70_EqualMeansAndNormsFail) {
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kF32, {1, -1, 2, -2}, {-1, 1, -2, 2}));
}

TEST(AssayStandard, F57_NaNEqualsOnlyNaN) {
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, {kNaN, 1}, {5, 1}));
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF32, {kNaN, 1}, {kNaN, 1}));
}

TEST(AssayStandard, InfinityKeepsItsSign) {
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kF32, {1, kInf, 2}, {1, -kInf, 2}));
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kF32, {1, kInf, 2}, {1, 3e38, 2}));
}

TEST(AssayStandard, F58_AllNaNIsNoEvidence) {
  const Judgement j = judge("assay", DType::kF32, {kNaN, kNaN}, {kNaN, kNaN});
  EXPECT_EQ(j.verdict, Verdict::kIncomplete);
  EXPECT_TRUE(has(j, "no_finite_evidence"));
}

TEST(AssayStandard, F59_NaNRuleHoldsForEveryFloatType) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kE4M3FN,
                            DType::kE5M2, DType::kE4M3FNUZ, DType::kF64})
    EXPECT_VERDICT(kMatch, judge("assay", dtype, {kNaN, 1}, {kNaN, 1}));
}

TEST(AssayStandard, F53_UnsignedDifferencesDoNotWrap) {
  const Judgement j = judge("assay", DType::kU8, {10, 10}, {9, 14});
  EXPECT_EQ(j.verdict, Verdict::kMismatch);
  EXPECT_NE(j.reasons[0].text.find("largest difference 4 "), std::string::npos)
      << text(j);
}

TEST(AssayStandard, F53_ExtremesOfSignedIntegers) {
  const Judgement small = judge("assay", DType::kI8, {-128}, {127});
  EXPECT_NE(small.reasons[0].text.find("largest difference 255 "),
            std::string::npos)
      << text(small);
  const Judgement wide =
      judge("assay", DType::kI32, {-2147483648.0}, {2147483647.0});
  EXPECT_NE(wide.reasons[0].text.find("largest difference 4294967295 "),
            std::string::npos)
      << text(wide);
}

TEST(AssayStandard, F61_GoldenZeroInFp16IsFlaggedWithoutNaN) {
  const Judgement j = judge("assay", DType::kF16, {0, 0}, {0, 1e-4});
  EXPECT_EQ(j.verdict, Verdict::kMismatch);
  EXPECT_EQ(text(j).find("nan"), std::string::npos) << text(j);
}

TEST(AssayStandard, F54_BigIntegersAreExact) {
  Tensor golden = Tensor::zeros(DType::kI64, {1});
  Tensor target = Tensor::zeros(DType::kI64, {1});
  store_code(DType::kI64, 1589056744433029441u, golden.mutable_data(), 0);
  store_code(DType::kI64, 1589056744433029431u, target.mutable_data(), 0);
  const Judgement j = judge("assay", golden, target);
  EXPECT_EQ(j.verdict, Verdict::kMismatch);
  EXPECT_NE(j.reasons[0].text.find("largest difference 10 "), std::string::npos)
      << text(j);
}

TEST(AssayStandard, F55_EmptyIsItsOwnState) {
  EXPECT_VERDICT(kEmpty, judge("assay", DType::kF32, Values{}, Values{}));
}

TEST(AssayStandard, F60_Fp8IsJudgedInItsOwnUlps) {
  const Values x = normal(512);
  Values y = rounded(DType::kE4M3FN, x);
  const Values golden = y;
  y[7] += ulp(DType::kE4M3FN, y[7]);
  EXPECT_VERDICT(kMatch, judge("assay", DType::kE4M3FN, golden, y));
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kE4M3FN, golden, y, OpClass::kMovement));
  y[7] = -golden[7];
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kE4M3FN, golden, y));
}

TEST(AssayStandard, F60_SignedZeroIsANoteExceptUnderExact) {
  const Judgement j = judge("assay", DType::kE4M3FN, {0.0, 1}, {-0.0, 1});
  EXPECT_EQ(j.verdict, Verdict::kMatch) << text(j);
  EXPECT_TRUE(has(j, "zero_sign"));
  EXPECT_VERDICT(kMismatch,
                 judge("exact", DType::kE4M3FN, {0.0, 1}, {-0.0, 1}));
}

TEST(AssayStandard, F62_OneLossScalarIsJudged) {
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF32, {2.3456789}, {2.3456792}));
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, {2.3456}, {2.3466}));
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kBF16, {1.0}, {2.0}));
  EXPECT_VERDICT(kMatch, judge("assay", DType::kBF16, {1.0}, {1.0078125}));
}

TEST(AssayStandard, F24_GemmaOffsetRoundedInBf16IsAMismatch) {
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, {1.00390625, 16.8125},
                                  {1.0, 16.75}));
}

TEST(AssayStandard, F25_VarianceReducedInBf16IsAMismatch) {
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kF32, {15.65696}, {15.62050}));
}

TEST(AssayStandard, F48_Bf16AccumulatorIsAMismatch) {
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kBF16, {1024}, {256}, OpClass::kGemm));
}

TEST(AssayStandard, F49_MatmulOnDowncastInputsIsAMismatch) {
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, {0.173721}, {0.174051},
                                  OpClass::kGemm));
}

TEST(AssayStandard, MovementIsExact) {
  const Values x = normal(100);
  Values y = x;
  y[3] = std::nextafter(static_cast<float>(y[3]), 10.0f);
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kF32, x, y, OpClass::kMovement));
}

TEST(AssayStandard, RandomOperatorsAreNotComparable) {
  const Values x = normal(100), y = normal(100, 2);
  EXPECT_VERDICT(kIncomplete,
                 judge("assay", DType::kF32, x, y, OpClass::kRandom));
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF32, x, x, OpClass::kRandom));
  Values broken = y;
  broken[0] = kNaN;
  EXPECT_VERDICT(kMismatch,
                 judge("assay", DType::kF32, x, broken, OpClass::kRandom));
}

TEST(AssayStandard, GoldenAllZeroAllowsNothing) {
  const Values zeros(64, 0.0);
  Values y = zeros;
  y[5] = 1e-30;
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, zeros, y));
  y[5] = 1e-45;  // the smallest subnormal of fp32
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, zeros, y));
}

TEST(AssayStandard, SubnormalsFlushedToZeroFail) {
  const Values x(64, 1e-40), zeros(64, 0.0);
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF32, x, zeros));
}

TEST(AssayStandard, SubnormalsOneStepApartMatch) {
  const Values x = make(
      64, [](std::int64_t i) { return static_cast<double>(i + 8) * 0x1p-149; });
  Values y = x;
  y[9] += 0x1p-149;
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF32, x, y));
}

// Squares of 1e200 leave fp64: no whole-tensor figure can be trusted.
TEST(AssayStandard, SumsThatOverflowAreNeverAMatch) {
  Values x(64, 1e200);
  Values y = x;
  y[3] = std::nextafter(1e200, 1e201);
  EXPECT_VERDICT(kIncomplete, judge("assay", DType::kF64, x, y));
  y[3] = -1e200;
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF64, x, y));
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF64, x, x));
}

TEST(AssayStandard, SumsThatUnderflowAreNeverAMatch) {
  Values x(64, 1e-200);
  Values y = x;
  y[3] = std::nextafter(1e-200, 1);
  EXPECT_VERDICT(kIncomplete, judge("assay", DType::kF64, x, y));
  y[3] = 0;
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF64, x, y));
}

TEST(AssayStandard, TargetOverflowIsAMismatch) {
  const Values x(64, 1.0);
  Values y = x;
  y[3] = 1e300;
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kF64, x, y));
}

// An outlier carries the norm and may be rounded the other way.
TEST(AssayStandard, OneUlpOnADominatingOutlierMatches) {
  Values x = rounded(DType::kBF16, normal(4096));
  x[17] = 20000;
  Values y = x;
  y[17] += ulp(DType::kBF16, x[17]);
  EXPECT_VERDICT(kMatch, judge("assay", DType::kBF16, x, y));
}

TEST(AssayStandard, LayerNormEpsilonErrorInFp32IsFoundByAlpha) {
  const Values x = rounded(DType::kF32, normal(1 << 16));
  const double factor = std::sqrt((1 + 1e-6) / (1 + 1e-5));
  const Values y = map(x, [&](double v) { return v * factor; });
  const Judgement j = judge("assay", DType::kF32, x, y, OpClass::kReduction);
  EXPECT_EQ(j.verdict, Verdict::kMismatch) << text(j);
  EXPECT_TRUE(has(j, "alpha")) << text(j);
}

TEST(AssayStandard, BiasIsFoundWhereElementsAreNot) {
  const Values x = rounded(DType::kBF16, normal(1 << 16));
  const Values y = map(x, [](double v) { return v + 2e-3; });
  const Judgement j = judge("assay", DType::kBF16, x, y, OpClass::kGemm);
  EXPECT_EQ(j.verdict, Verdict::kMismatch) << text(j);
  EXPECT_TRUE(has(j, "bias")) << text(j);
}

// fp32 sums in two orders, K = 4096.
TEST(AssayStandard, Fp32DotProductsInAnotherOrderMatch) {
  const std::int64_t k = 4096, n = 64;
  const Values a = normal(k), b = normal(k * n, 3);
  const auto dots = [&](bool backward) {
    return make(n, [&](std::int64_t j) {
      float sum = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        const auto at = static_cast<std::size_t>(backward ? k - 1 - i : i);
        sum += static_cast<float>(a[at]) *
               static_cast<float>(b[at + static_cast<std::size_t>(j * k)]);
      }
      return static_cast<double>(sum);
    });
  };
  EXPECT_VERDICT(kMatch, judge("assay", DType::kF32, dots(false), dots(true),
                               OpClass::kGemm));
}

TEST(AssayStandard, NoiseWidensTheBoundInProportion) {
  const Values x = normal(4096), e = normal(4096, 9);
  Values y = x;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += 0.05 * e[i];
  const Tensor golden = test::tensor(DType::kBF16, x);
  const Tensor target = test::tensor(DType::kBF16, y);
  EXPECT_VERDICT(kMismatch, judge("assay", golden, target));
  for (const OpClass op :
       {OpClass::kUnknown, OpClass::kElementwise, OpClass::kMovement})
    EXPECT_VERDICT(kMatch, judge("assay", golden, target, op, 0.04));
  EXPECT_VERDICT(kMismatch,
                 judge("assay", golden, target, OpClass::kUnknown, 0.004));
}

TEST(AssayStandard, ScalesAreExact) {
  EXPECT_VERDICT(kMismatch, judge("assay", DType::kE8M0, {1, 2}, {1, 4}));
}

TEST(AssayStandard, ImaginaryPartCounts) {
  Tensor golden = test::tensor(DType::kC64, {2}, {1, 1, 2, 0});
  Tensor target = test::tensor(DType::kC64, {2}, {1, 0, 2, 0});
  EXPECT_VERDICT(kMismatch, judge("assay", golden, target));
}

// A figure that the caller did not compute is no evidence.
TEST(AssayStandard, MissingDetailIsIncomplete) {
  const auto standard = Standard::load("assay");
  const Tensor a = test::tensor(DType::kF32, {1, 2});
  const Tensor b = test::tensor(DType::kF32, {1, 2.0000002});
  const ErrorStats stats = compute_stats(a.view, b.view);
  const Judgement j = standard->judge(stats, OpClass::kUnknown, nullptr, -1);
  EXPECT_EQ(j.verdict, Verdict::kIncomplete);
}

SideFacts facts(DType dtype, Shape shape) {
  SideFacts f;
  f.dtype = dtype;
  f.shape = std::move(shape);
  return f;
}

TEST(AssayContract, F56_ShapesAreComparedExactly) {
  const auto standard = Standard::load("assay");
  std::vector<Reason> notes;
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{2}, {1}}, {{5}, {5, 1}},    {{}, {1}},
      {{}, {0}},  {{0, 3}, {3, 0}}, {{3, 1}, {1, 3}}};
  for (const auto& [a, b] : pairs) {
    const auto j = standard->judge_contract(facts(DType::kF32, a),
                                            facts(DType::kF32, b), notes);
    ASSERT_TRUE(j) << to_string(a) << to_string(b);
    EXPECT_EQ(j->verdict, Verdict::kMismatch);
    EXPECT_EQ(j->reasons[0].criterion, "shape");
  }
  EXPECT_FALSE(standard->judge_contract(facts(DType::kF32, {2, 3}),
                                        facts(DType::kF32, {2, 3}), notes));
}

TEST(AssayContract, DtypeDifferenceIsAMismatchWithANoteOnValues) {
  const auto standard = Standard::load("assay");
  std::vector<Reason> notes;
  const auto j = standard->judge_contract(facts(DType::kF32, {2}),
                                          facts(DType::kBF16, {2}), notes);
  ASSERT_TRUE(j);
  EXPECT_EQ(j->reasons[0].text,
            "dtype differs: golden float32, target bfloat16");
  const Tensor golden = test::tensor(DType::kF32, {1.001, 2});
  const Tensor target = test::tensor(DType::kBF16, {1.001, 2});
  const Reason note = standard->note_values(
      compute_stats(golden.view, target.view), OpClass::kUnknown);
  EXPECT_TRUE(note.note);
  EXPECT_NE(note.text.find("bfloat16: match"), std::string::npos) << note.text;
}

TEST(AssayContract, RequiresGradIsANote) {
  SideFacts a = facts(DType::kF32, {2}), b = a;
  a.requires_grad = true;
  b.requires_grad = false;
  std::vector<Reason> notes;
  EXPECT_FALSE(Standard::load("assay")->judge_contract(a, b, notes));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].criterion, "requires_grad");
  EXPECT_TRUE(Standard::load("msprobe")->judge_contract(a, b, notes));
}

}  // namespace
}  // namespace assay
