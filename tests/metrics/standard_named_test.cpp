// The named standards: (pair, standard, verdict) by hand, and what their own
// tools pass wrongly.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include "assay/base/error.h"
#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::has;
using test::judge;
using test::normal;
using test::tensor;
using test::text;
using test::Values;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Verdict kMatch = Verdict::kMatch;
constexpr Verdict kMismatch = Verdict::kMismatch;
constexpr Verdict kIncomplete = Verdict::kIncomplete;

struct Case {
  const char* standard;
  DType dtype;
  Values golden, target;
  Verdict verdict;
};

void check(std::initializer_list<Case> cases) {
  int row = 0;
  for (const Case& c : cases) {
    const Judgement j = judge(c.standard, c.dtype, c.golden, c.target);
    EXPECT_EQ(j.verdict, c.verdict)
        << "row " << row << ", " << c.standard << ": " << text(j);
    ++row;
  }
}

TEST(Standards, AllLoadAndSayWhereTheyComeFrom) {
  const std::vector<std::string> names = Standard::shipped();
  EXPECT_EQ(names,
            (std::vector<std::string>{
                "amax-history", "ascend-commercial-l0", "ascend-commercial-l1",
                "ascend-commercial-l2", "ascend-mere-mare", "ascend-mixed-2026",
                "assay", "code-flips-16", "code-flips-fp4", "code-flips-fp8",
                "exact", "fp32-inside", "msprobe", "polygraphy", "ptdbg",
                "te-tests", "torch-assert-close"}));
  for (const std::string& name : names) {
    const auto standard = Standard::load(name);
    EXPECT_EQ(standard->name(), name);
    EXPECT_FALSE(standard->source().empty());
    EXPECT_GE(standard->date().size(), 7u);
  }
}

// atol + rtol |g|: 1e-5 + 1.3e-6 = 1.13e-5 at 1; 1.6e-2 + 1e-5 in bf16.
TEST(Standards, TorchAssertClose) {
  check({
      {"torch-assert-close", DType::kF32, {1, 1}, {1, 1.0000112}, kMatch},
      {"torch-assert-close", DType::kF32, {1, 1}, {1, 1.0000116}, kMismatch},
      {"torch-assert-close", DType::kBF16, {1, 1}, {1, 1.015625}, kMatch},
      {"torch-assert-close", DType::kBF16, {1, 1}, {1, 1.0234375}, kMismatch},
      {"torch-assert-close", DType::kF32, {kNaN, 1}, {kNaN, 1}, kMismatch},
      {"torch-assert-close", DType::kE4M3FN, {1, 1}, {1, 1.125}, kMismatch},
      {"torch-assert-close", DType::kE4M3FN, {1, 2}, {1, 2}, kMatch},
      {"torch-assert-close", DType::kE8M0, {1, 2}, {1, 4}, kMismatch},
      // atol swallows the signal: KernelBench 165.
      {"torch-assert-close", DType::kF32, {2.5e-6, 2.5e-6}, {0, 0}, kMismatch},
      {"torch-assert-close",
       DType::kF64,
       {1e200, 1},
       {1e200, 1.00000001},
       kIncomplete},
  });
}

// e4m3: 0.0675 + 0.125 |g|.
TEST(Standards, TeTests) {
  check({
      {"te-tests", DType::kE4M3FN, {1, 1}, {1, 1.125}, kMatch},
      {"te-tests", DType::kE4M3FN, {1, 1}, {1, 1.25}, kMismatch},
      {"te-tests", DType::kF16, {1, 1}, {1, 1.0009765625}, kMatch},
      {"te-tests", DType::kF16, {1, 1}, {1, 1.001953125}, kMismatch},
      {"te-tests", DType::kE4M3FNUZ, {1, 1}, {1, 1.125}, kIncomplete},
      {"te-tests", DType::kE4M3FN, {0.03125, 0.03125}, {0, 0}, kMismatch},
  });
}

// max(1e-5, 1e-5 |g|), not the sum; NaN never passes; int32 does not wrap.
TEST(Standards, Polygraphy) {
  check({
      {"polygraphy", DType::kF32, {100, 1}, {100.0009, 1}, kMatch},
      {"polygraphy", DType::kF32, {100, 1}, {100.0011, 1}, kMismatch},
      {"polygraphy", DType::kF64, {0.5, 1}, {0.500009, 1}, kMatch},
      // Under the sum 1.5e-5, over the larger of both.
      {"polygraphy", DType::kF64, {0.5, 1}, {0.500012, 1}, kMismatch},
      {"polygraphy", DType::kF32, {kNaN, 1}, {kNaN, 1}, kMismatch},
      {"polygraphy", DType::kI32, {2147483647}, {-2147483647}, kMismatch},
      {"polygraphy", DType::kF32, {1e-6, 1e-6}, {-1e-6, 1e-6}, kMismatch},
  });
}

TEST(Standards, AscendMixed) {
  Values golden(200, 1.0), two_bad = golden, three_bad = golden;
  // fp32: 2^-10 + 2^-16 = 9.9e-4; 1 % of 200 is two.
  for (const std::size_t i : {1u, 2u}) two_bad[i] = 1.005;
  for (const std::size_t i : {1u, 2u, 3u}) three_bad[i] = 1.005;
  Values far = golden;
  far[7] = 1.02;  // over the limit 1e-2 and over 32 ulp
  check({
      {"ascend-mixed-2026", DType::kF32, golden, two_bad, kMatch},
      {"ascend-mixed-2026", DType::kF32, golden, three_bad, kMismatch},
      {"ascend-mixed-2026", DType::kF32, golden, far, kMismatch},
      {"ascend-mixed-2026", DType::kF32, {1e-5, 1e-5}, {0, 0}, kMismatch},
      {"ascend-mixed-2026", DType::kI8, {1, 2}, {1, 3}, kMismatch},
      {"ascend-mixed-2026", DType::kF64, {1, 2}, {1, 2.1}, kIncomplete},
  });
}

// fp32: T = 2^-13 = 1.22e-4, MARE below 1.22e-3.
TEST(Standards, AscendMereMare) {
  check({
      {"ascend-mere-mare", DType::kF32, {1, 1}, {1, 1.0002}, kMatch},
      {"ascend-mere-mare", DType::kF32, {1, 1}, {1, 1.0003}, kMismatch},
      {"ascend-mere-mare", DType::kF32, {0, 1}, {1e-9, 1}, kMismatch},
      {"ascend-mere-mare", DType::kF32, {0, 1}, {1e-11, 1}, kMatch},
      {"ascend-mere-mare", DType::kF32, {0, 0}, {1e-11, 0}, kMismatch},
      {"ascend-mere-mare", DType::kF32, {1e-40, 1e-40}, {0, 0}, kMismatch},
  });
}

// No: (cosine < 0.99 and max abs > 0.001) or cosine < 0.9 or max abs > 1.
TEST(Standards, Ptdbg) {
  check({
      {"ptdbg", DType::kF32, {1, 1}, {1.05, 1}, kMatch},
      {"ptdbg", DType::kF32, {1, 1}, {2.5, 1}, kMismatch},
      {"ptdbg", DType::kF32, {1, 0}, {1, 0.2}, kMismatch},
      {"ptdbg", DType::kF32, {0, 0}, {1e-4, 0}, kMismatch},
      {"ptdbg", DType::kF32, {1}, {1.9}, kIncomplete},
      // Cosine 1, max abs below 1: twice the golden is "Yes" there.
      {"ptdbg", DType::kF32, {0.1, 0.2}, {0.2, 0.4}, kMismatch},
  });
}

// Everything msprobe passes and should not.
TEST(Standards, MsprobeFalsePassesAreMismatches) {
  check({
      {"msprobe", DType::kF32, {1, kInf, 2}, {1, -kInf, 2}, kMismatch},
      {"msprobe", DType::kC64, {1, 0, 2, 0}, {1, 1, 2, 0}, kMismatch},
      {"msprobe", DType::kF32, {1}, {2}, kMismatch},
      {"msprobe", DType::kF64, {2e-13, 1e-13}, {1e-13, 1e-13}, kMismatch},
      {"msprobe", DType::kBool, {1, 1}, {1, 0}, kMismatch},
      {"msprobe", DType::kF32, {1, 2, 3}, {1.84, 3.68, 5.52}, kMismatch},
  });
  const Judgement inf = judge("msprobe", DType::kF32, {1, kInf}, {1, -kInf});
  EXPECT_TRUE(has(inf, "msprobe")) << text(inf);
  Tensor b = Tensor::zeros(DType::kI64, {1}), n = b;
  n = Tensor::zeros(DType::kI64, {1});
  store_code(DType::kI64, std::uint64_t{1} << 60, b.mutable_data(), 0);
  store_code(DType::kI64, (std::uint64_t{1} << 60) + 1, n.mutable_data(), 0);
  const Judgement big = judge("msprobe", b, n);
  EXPECT_EQ(big.verdict, kMismatch);
  EXPECT_TRUE(has(big, "msprobe")) << text(big);
}

TEST(Standards, MsprobeVerdictsWhereItIsRight) {
  const Values x = normal(1000);
  Values y = x;
  for (std::size_t i = 0; i < 500; ++i) y[i] *= 1.002;
  check({
      {"msprobe", DType::kF32, x, y, kMatch},
      {"msprobe", DType::kF32, x,
       test::map(x, [](double v) { return 1.5 * v; }), kMismatch},
      {"msprobe", DType::kF32, {1.0}, {1.0005}, kMatch},
      {"msprobe", DType::kF32, {1, kNaN}, {1, 2}, kMismatch},
  });
}

TEST(Standards, Exact) {
  check({
      {"exact", DType::kF32, {1, 2}, {1, 2}, kMatch},
      {"exact", DType::kF32, {1, 2}, {1, 2.0000002}, kMismatch},
      {"exact", DType::kF32, {0.0, 1}, {-0.0, 1}, kMismatch},
      {"exact", DType::kF32, {kNaN, 1}, {kNaN, 1}, kMatch},
      {"exact", DType::kF32, {kNaN}, {kNaN}, kIncomplete},
  });
}

// No standard may pass any of these.
TEST(Standards, NoneEverPassesTheseFalsely) {
  const Values x = normal(64);
  Values nan_in_target = x, sign = x, minus_inf = x, shifted = x;
  nan_in_target[5] = kNaN;
  for (double& v : sign) v = -v;
  minus_inf[5] = -kInf;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  const std::vector<std::pair<Values, Values>> pairs = {
      {x, nan_in_target},
      {x, sign},
      {x, minus_inf},
      {x, shifted},
      {x, Values(64, 0.0)},
      {Values(64, 0.0), x},
      {x, test::map(x, [](double v) { return 2 * v; })},
      {Values(64, 2.5e-6), Values(64, 0.0)},
      {Values(64, 1e-40), Values(64, 0.0)},
      {Values(64, kNaN), Values(64, kNaN)},
      {Values(64, kInf), Values(64, kInf)},
      {Values(64, 1e30), Values(64, kInf)},
      {{1, -1, 2, -2}, {-1, 1, -2, 2}},
      // The difference, then its square, leaves the range of fp64.
      {Values(64, 1.5e308), Values(64, -1.5e308)},
      {Values(64, 1.0), Values(64, -1e200)},
  };
  for (const std::string& name : Standard::shipped())
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64})
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        const Judgement j = judge(name, dtype, pairs[i].first, pairs[i].second);
        EXPECT_NE(j.verdict, kMatch)
            << name << ", pair " << i << ": " << text(j);
      }
}

// Squares that underflow to nothing in fp64.
TEST(Standards, NoneEverPassesTinyValuesOfTheOtherSign) {
  for (const std::string& name : Standard::shipped()) {
    const Judgement j =
        judge(name, DType::kF64, Values(64, 1e-200), Values(64, -1e-200));
    EXPECT_NE(j.verdict, kMatch) << name << ": " << text(j);
  }
}

Judgement judge_ratio(const std::string& name, const Tensor& golden,
                      const Tensor& target, const Tensor& baseline) {
  const auto standard = Standard::load(name);
  const ErrorStats stats =
      test::measure(*standard, golden, target, OpClass::kUnknown);
  const ErrorStats base =
      test::measure(*standard, golden, baseline, OpClass::kUnknown);
  return standard->judge(stats, OpClass::kUnknown, &base, -1);
}

// Relative errors 0.01 (target) over 0.004 (baseline): ratio 2.5 in mean.
TEST(Standards, CommercialRatios) {
  const Values g(64, 1.0);
  const auto scaled = [&](double by) {
    return tensor(DType::kF32, test::map(g, [&](double v) { return v * by; }));
  };
  const Tensor golden = tensor(DType::kF32, g);
  const Judgement worse =
      judge_ratio("ascend-commercial-l0", golden, scaled(1.01), scaled(1.004));
  EXPECT_EQ(worse.verdict, kMismatch) << text(worse);
  EXPECT_EQ(worse.reasons[0].criterion, "mean_rel");
  EXPECT_NEAR(worse.reasons[0].figure, 2.5, 1e-3);
  // Ratio 1.75: allowed at L0, not at L1 or L2.
  const Tensor some = scaled(1.007);
  EXPECT_EQ(
      judge_ratio("ascend-commercial-l0", golden, some, scaled(1.004)).verdict,
      kMatch);
  EXPECT_EQ(
      judge_ratio("ascend-commercial-l1", golden, some, scaled(1.004)).verdict,
      kMismatch);
  EXPECT_EQ(
      judge_ratio("ascend-commercial-l2", golden, some, scaled(1.004)).verdict,
      kMismatch);
}

TEST(Standards, CommercialNeedsAFitBaseline) {
  const Tensor golden = tensor(DType::kF32, Values(64, 1.0));
  const Tensor target = tensor(DType::kF32, Values(64, 1.01));
  const Judgement none = judge("ascend-commercial-l0", golden, target);
  EXPECT_EQ(none.verdict, kIncomplete);
  EXPECT_EQ(none.reasons[0].criterion, "baseline");
  // As wrong as the target, and wrong by 90 %: no evidence.
  const Tensor garbage = tensor(DType::kF32, Values(64, 1.9));
  EXPECT_EQ(
      judge_ratio("ascend-commercial-l0", golden, garbage, garbage).verdict,
      kIncomplete);
  // An exact baseline: the floor 2^-14 is the yardstick.
  const Tensor near = tensor(DType::kF32, Values(64, 1.0 + 0x1p-14));
  EXPECT_EQ(judge_ratio("ascend-commercial-l0", golden, near, golden).verdict,
            kMatch);
  EXPECT_EQ(judge_ratio("ascend-commercial-l0", golden, target, golden).verdict,
            kMismatch);
}

std::string load_error(const std::string& yaml) {
  const std::string path = ::testing::TempDir() + "assay_standard.yaml";
  std::ofstream(path) << yaml;
  try {
    (void)Standard::load(path);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    return std::string(e.what()).substr(path.size());
  }
  return "loaded";
}

constexpr const char* kGood =
    "name: mine\nkind: tolerance\nproject: p\ndocument: d\nsection: s\n"
    "date: 2026-01-01\ncombine: sum\nshare: 1\n"
    "dtypes:\n  f32: {rtol: 2^-10, atol: 0}\n";

TEST(StandardFiles, AFileIsReadStrictly) {
  const std::string good = kGood;
  EXPECT_EQ(load_error(good), "loaded");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return load_error(text);
  };
  EXPECT_EQ(with("share: 1", "share: 1\nshar: 2").substr(0, 24),
            ":9: unknown key 'shar', ");
  EXPECT_EQ(with("date: 2026-01-01\n", ""), ":1: key 'date' is missing");
  EXPECT_EQ(with("2026-01-01", "soon"),
            ":6: expected a date such as 2026-07-31");
  EXPECT_EQ(with("rtol: 2^-10", "rtol: lots").substr(0, 22),
            ":10: found 'lots', exp");
  EXPECT_EQ(with("rtol: 2^-10", "rtol: -1").substr(0, 18),
            ":10: found '-1', e");
  EXPECT_EQ(with("rtol: 2^-10", "rtol: nan").substr(0, 19),
            ":10: found 'nan', e");
  EXPECT_EQ(with("  f32:", "  f33:"), ":10: 'f33' is no float dtype");
  EXPECT_EQ(with("  f32:", "  int8:"), ":10: 'int8' is no float dtype");
  EXPECT_EQ(with("rtol: 2^-10", "rtol: [1]").substr(0, 4), ":10:");
  EXPECT_EQ(with("kind: tolerance", "kind: vibes").substr(0, 24),
            ":2: unknown kind 'vibes'");
  EXPECT_EQ(with("share: 1", "share: 1\nshare: 1"),
            ":9: key 'share' is given twice");
  EXPECT_EQ(with("share: 1", "share: *x").substr(0, 6), ":8: no");
  EXPECT_EQ(with("share: 1", "share: {").substr(0, 1), ":");
  EXPECT_EQ(load_error(""), ":1: expected one YAML mapping");
}

TEST(StandardFiles, AnUnknownNameListsTheShipped) {
  try {
    (void)Standard::load("assai");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_NE(std::string(e.what()).find("did you mean 'assay'"),
              std::string::npos);
  }
  EXPECT_THROW((void)Standard::load("/no/such/file.yaml"), Error);
}

TensorStatistics stats_of(double max, double min, double mean, double norm) {
  return {max, min, mean, norm};
}

Judgement statistics(const TensorStatistics& golden,
                     const TensorStatistics& target,
                     const std::string& name = "assay",
                     DType dtype = DType::kF32) {
  SideFacts facts;
  facts.dtype = dtype;
  facts.shape = {1000};
  return Standard::load(name)->judge_statistics(golden, target, facts,
                                                OpClass::kUnknown);
}

TEST(Statistics, AMeanNearZeroIsJudgedAgainstTheScale) {
  const auto g = stats_of(3.2, -3.1, 1e-9, 31.6);
  const Judgement j = statistics(g, stats_of(3.2, -3.1, -4e-9, 31.6));
  EXPECT_EQ(j.verdict, kMatch) << text(j);
  EXPECT_TRUE(has(j, "statistics_only"));
  EXPECT_EQ(statistics(g, stats_of(3.2, -3.1, 1e-3, 31.6)).verdict, kMismatch);
  EXPECT_EQ(statistics(g, stats_of(3.2, -3.1, 1e-9, 31.7)).verdict, kMismatch);
  EXPECT_EQ(statistics(g, stats_of(3.3, -3.1, 1e-9, 31.6)).verdict, kMismatch);
}

TEST(Statistics, WhatWasNotKeptIsNoMatch) {
  const auto g = stats_of(3.2, -3.1, 0, 31.6);
  EXPECT_EQ(statistics({}, {}).verdict, kIncomplete);
  EXPECT_EQ(statistics(g, {}).verdict, kIncomplete);
  EXPECT_EQ(statistics({3.2, -3.1, {}, {}}, {3.2, -3.1, {}, {}}).verdict,
            kIncomplete);
  const auto nan = stats_of(kNaN, kNaN, kNaN, kNaN);
  EXPECT_EQ(statistics(nan, nan).verdict, kIncomplete);
  EXPECT_EQ(statistics(g, nan).verdict, kMismatch);
  const auto up = stats_of(kInf, 0, kInf, kInf),
             down = stats_of(-kInf, 0, kInf, kInf);
  EXPECT_EQ(statistics(up, down).verdict, kMismatch);
  EXPECT_EQ(statistics(g, g, "torch-assert-close").verdict, kIncomplete);
}

// bool tensors keep only max and min: every mask with one true and one false
// element has the same. All elements are known where the two are one value.
TEST(Statistics, F79_ExactDtypesWithoutNorm) {
  const TensorStatistics mixed{1, 0, {}, {}}, ones{1, 1, {}, {}};
  EXPECT_EQ(statistics(mixed, mixed, "assay", DType::kBool).verdict,
            kIncomplete);
  EXPECT_EQ(statistics(mixed, ones, "assay", DType::kBool).verdict, kMismatch);
  EXPECT_EQ(statistics(ones, ones, "assay", DType::kBool).verdict, kMatch);
  const TensorStatistics ids{31999, 1, 812.5, 9000.0};
  EXPECT_EQ(statistics(ids, ids, "assay", DType::kI64).verdict, kMatch);
}

TEST(Statistics, EmptyIsEmpty) {
  SideFacts facts;
  facts.dtype = DType::kF32;
  facts.shape = {0, 3};
  EXPECT_EQ(Standard::load("assay")
                ->judge_statistics({}, {}, facts, OpClass::kUnknown)
                .verdict,
            Verdict::kEmpty);
}

}  // namespace
}  // namespace assay
