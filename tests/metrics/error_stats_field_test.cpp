// Cases that comparison tools in the field got wrong, by their number in the
// field log, and hand-computed figures.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "assay/base/error.h"
#include "assay/metrics/error_stats.h"
#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::tensor;
using test::Values;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

ErrorStats stats_of(DType dtype, const Values& golden, const Values& target) {
  const Tensor g = tensor(dtype, golden), t = tensor(dtype, target);
  return compute_stats(g.view, t.view);
}

DetailStats detail_of(DType dtype, const Values& golden, const Values& target,
                      const DetailRequest& request = {}) {
  const Tensor g = tensor(dtype, golden), t = tensor(dtype, target);
  ErrorStats stats = compute_stats(g.view, t.view);
  compute_detail(g.view, t.view, request, stats);
  return *stats.detail;
}

template <typename T>
Tensor ints(DType dtype, const std::vector<T>& values) {
  Tensor t = Tensor::zeros(dtype, {static_cast<std::int64_t>(values.size())});
  std::memcpy(t.mutable_data(), values.data(), values.size() * sizeof(T));
  return t;
}

TEST(FieldLog, F53UnsignedDifferencesDoNotWrap) {
  const ErrorStats s = stats_of(DType::kU8, {10, 10}, {9, 14});
  EXPECT_EQ(s.max_abs_int, 4u);
  EXPECT_EQ(s.max_abs, 4);
  EXPECT_EQ(s.max_abs_index, 1);
  EXPECT_EQ(s.bias, 1.5);  // (-1 + 4) / 2
  EXPECT_EQ(stats_of(DType::kU8, {0}, {1}).max_abs_int, 1u);
}

TEST(FieldLog, F53SignedExtremes) {
  EXPECT_EQ(stats_of(DType::kI8, {-128}, {127}).max_abs_int, 255u);
  EXPECT_EQ(stats_of(DType::kI32, {2147483647}, {-2147483647}).max_abs_int,
            4294967294u);
  const auto top = std::numeric_limits<std::uint64_t>::max();
  const ErrorStats u64 =
      compute_stats(ints<std::uint64_t>(DType::kU64, {top}).view,
                    ints<std::uint64_t>(DType::kU64, {0}).view);
  EXPECT_EQ(u64.max_abs_int, top);
  const ErrorStats i64 =
      compute_stats(ints<std::int64_t>(DType::kI64, {INT64_MIN}).view,
                    ints<std::int64_t>(DType::kI64, {INT64_MAX}).view);
  EXPECT_EQ(i64.max_abs_int, top);
}

// Further apart than 64 bits hold: the largest figure, not a wrapped one.
TEST(FieldLog, F53SignedAgainstUnsigned) {
  const ErrorStats s = compute_stats(
      ints<std::int64_t>(DType::kI64, {INT64_MIN}).view,
      ints<std::uint64_t>(DType::kU64,
                          {std::numeric_limits<std::uint64_t>::max()})
          .view);
  EXPECT_EQ(s.max_abs_int, std::numeric_limits<std::uint64_t>::max());
  EXPECT_DOUBLE_EQ(s.max_abs, 0x1.8p64);
}

TEST(FieldLog, F54BigIntegersAreComparedIn64Bits) {
  const ErrorStats s = compute_stats(
      ints<std::int64_t>(DType::kI64, {5, 1589056744433029441}).view,
      ints<std::int64_t>(DType::kI64, {5, 1589056744433029431}).view);
  EXPECT_EQ(s.mismatches, 1);
  EXPECT_EQ(s.max_abs_int, 10u);
  EXPECT_EQ(s.max_abs_index, 1);
  EXPECT_EQ(s.bias, -5);
}

TEST(FieldLog, F57NanEqualsNothingButNan) {
  const ErrorStats s = stats_of(DType::kF32, {kNan, 1}, {5, 1});
  EXPECT_EQ(s.golden.nan, 1);
  EXPECT_EQ(s.target.nan, 0);
  EXPECT_EQ(s.nonfinite_mismatches, 1);
  EXPECT_EQ(s.first_nonfinite_mismatch, 0);
  EXPECT_EQ(s.mismatches, 1);
  EXPECT_EQ(s.finite, 1);
  EXPECT_EQ(s.max_abs, 0);
  EXPECT_EQ(s.target.mean, 3);  // over its own finite values
  EXPECT_EQ(s.golden.mean, 1);
}

TEST(FieldLog, F58AllNanAgreesButIsNoFiniteEvidence) {
  const ErrorStats s =
      stats_of(DType::kF32, Values(100, kNan), Values(100, kNan));
  EXPECT_EQ(s.finite, 0);
  EXPECT_EQ(s.count, 100);
  EXPECT_EQ(s.nonfinite_mismatches, 0);
  EXPECT_EQ(s.mismatches, 0);
}

TEST(FieldLog, F59NanRuleIsTheSameForEveryFloat) {
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kE4M3FN,
        DType::kE5M2, DType::kE4M3FNUZ, DType::kE5M2FNUZ, DType::kE8M0}) {
    SCOPED_TRACE(traits(dtype).name);
    const ErrorStats s = stats_of(dtype, {kNan, 1, 1}, {kNan, kNan, 1});
    EXPECT_EQ(s.golden.nan, 1);
    EXPECT_EQ(s.target.nan, 2);
    EXPECT_EQ(s.nonfinite_mismatches, 1);
    EXPECT_EQ(s.first_nonfinite_mismatch, 1);
  }
}

TEST(FieldLog, F60Fp8IsComparedByValue) {
  const ErrorStats s = stats_of(DType::kE4M3FN, {1, 2}, {1.125, 2});
  EXPECT_EQ(s.max_abs, 0.125);
  EXPECT_EQ(s.mismatches, 1);
  EXPECT_EQ(s.judged_dtype, DType::kE4M3FN);
  EXPECT_EQ(detail_of(DType::kE4M3FN, {1}, {1.125}).ulp_max, 1);
}

TEST(FieldLog, F60ZerosOfBothSignsAreEqualInValueOnly) {
  const ErrorStats s = stats_of(DType::kE4M3FN, {0.0}, {-0.0});
  EXPECT_EQ(s.mismatches, 0);
  EXPECT_EQ(s.zero_sign_flips, 1);
  EXPECT_EQ(s.sign_flips, 0);
  EXPECT_FALSE(s.bitwise_equal);
}

TEST(FieldLog, F61ZeroGoldenGivesNoNan) {
  const ErrorStats s = stats_of(DType::kF16, {0, 0}, {0, 1e-4});
  EXPECT_EQ(s.max_rel, kInf);
  EXPECT_EQ(s.max_rel_index, 1);
  EXPECT_EQ(s.mean_rel, 0);
  EXPECT_EQ(s.norm_l2, kInf);
  EXPECT_EQ(s.cosine, 0);
  EXPECT_EQ(s.alpha, 1);
  const ErrorStats same = stats_of(DType::kF16, {0, 0}, {0, -0.0});
  EXPECT_EQ(same.max_rel, 0);
  EXPECT_EQ(same.norm_l2, 0);
  EXPECT_EQ(same.cosine, 1);
}

TEST(FieldLog, F62ScalarsAndPackedFp4AreCompared) {
  const Tensor a = tensor(DType::kF32, {}, {2.0});
  const Tensor b = tensor(DType::kF32, {}, {2.5});
  const ErrorStats scalar = compute_stats(a.view, b.view);
  EXPECT_EQ(scalar.count, 1);
  EXPECT_EQ(scalar.max_abs, 0.5);
  EXPECT_EQ(scalar.max_rel, 0.25);
  EXPECT_EQ(scalar.cosine, 1);
  const ErrorStats fp4 = stats_of(DType::kE2M1, {0.5, -6, 3}, {0.5, -6, 4});
  EXPECT_EQ(fp4.count, 3);
  EXPECT_EQ(fp4.max_abs, 1);
  EXPECT_EQ(fp4.max_abs_index, 2);
}

TEST(FieldLog, F63ZerosAgainstTinyValuesAreAWholeError) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    const ErrorStats s =
        stats_of(dtype, Values(1000, 2.5e-6), Values(1000, 0.0));
    EXPECT_DOUBLE_EQ(s.norm_l2, 1);
    EXPECT_NEAR(s.sqnr_db, 0, 1e-12);
    EXPECT_EQ(s.max_rel, 1);
    EXPECT_EQ(s.alpha, 0);
    EXPECT_EQ(s.target.l2, 0);
  }
}

TEST(ErrorStats, InfinitiesMatchBySign) {
  const ErrorStats s = stats_of(DType::kBF16, {kInf, kInf, -kInf, 1},
                                {kInf, -kInf, -kInf, kInf});
  EXPECT_EQ(s.nonfinite_mismatches, 2);
  EXPECT_EQ(s.first_nonfinite_mismatch, 1);
  EXPECT_EQ(s.golden.pos_inf, 2);
  EXPECT_EQ(s.golden.neg_inf, 1);
  EXPECT_EQ(s.target.pos_inf, 2);
  EXPECT_EQ(s.target.neg_inf, 2);
}

// A causal mask: whole runs of -inf on both sides, one of them missing.
TEST(ErrorStats, MaskedScoresAreComparedWhereTheyAreFinite) {
  Values x(20'000, -kInf), y;
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 1;
  y = x;
  y[9000] = 1.5;
  y[9001] = 7;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
    SCOPED_TRACE(traits(dtype).name);
    const ErrorStats s = stats_of(dtype, x, y);
    EXPECT_EQ(s.finite, 6667);
    EXPECT_EQ(s.golden.neg_inf, 13'333);
    EXPECT_EQ(s.target.neg_inf, 13'332);
    EXPECT_EQ(s.nonfinite_mismatches, 1);
    EXPECT_EQ(s.first_nonfinite_mismatch, 9001);
    EXPECT_EQ(s.max_abs, 0.5);
    EXPECT_EQ(s.max_abs_index, 9000);
    EXPECT_EQ(s.golden.min, 1);
    EXPECT_EQ(s.target.max, 7);
    EXPECT_EQ(s.bias, 0.5 / 6667);
    const DetailStats d = detail_of(dtype, x, y, {{0, 0, 1}, {2, 0.25}});
    EXPECT_EQ(d.over_bound, 1);
    EXPECT_EQ(d.small_count, 6667);
    EXPECT_EQ(d.small_errors, 1);
  }
}

TEST(ErrorStats, ImaginaryPartsCount) {
  const Tensor g = tensor(DType::kC64, {2}, {1, 2, 3, 4});
  const Tensor t = tensor(DType::kC64, {2}, {1, 2, 3, 5});
  const ErrorStats s = compute_stats(g.view, t.view);
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.max_abs, 1);
  EXPECT_EQ(s.max_abs_index, 3);
  EXPECT_EQ(s.judged_dtype, DType::kF32);
}

TEST(ErrorStats, StridedViewsAreReadInPlace) {
  const Tensor base = tensor(DType::kF32, {2, 3}, {0, 1, 2, 3, 4, 5});
  TensorView turned = base.view;
  turned.shape = {3, 2};
  turned.strides = {1, 3};
  const Tensor golden = tensor(DType::kF32, {3, 2}, {0, 3, 1, 4, 2, 5.5});
  const ErrorStats s = compute_stats(golden.view, turned);
  EXPECT_EQ(s.max_abs, 0.5);
  EXPECT_EQ(s.max_abs_index, 5);
  EXPECT_EQ(s.mismatches, 1);
}

TEST(ErrorStats, EmptyPairCountsNothing) {
  const Tensor a = tensor(DType::kF32, {0, 3}, {});
  const ErrorStats s = compute_stats(a.view, a.view);
  EXPECT_EQ(s.count, 0);
  EXPECT_EQ(s.finite, 0);
  EXPECT_EQ(s.max_abs_index, -1);
}

TEST(ErrorStats, ShapesMustBeEqual) {
  const Tensor a = tensor(DType::kF32, {2, 1}, {1, 2});
  const Tensor b = tensor(DType::kF32, {2}, {1, 2});
  try {
    compute_stats(a.view, b.view);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
  }
}

TEST(ErrorStats, WiderGoldenIsRoundedFirst) {
  const Tensor g = tensor(DType::kF32, {1.001, 3});
  const Tensor t = tensor(DType::kBF16, {1, 3});
  const ErrorStats s = compute_stats(g.view, t.view);
  EXPECT_TRUE(s.golden_rounded);
  EXPECT_FALSE(s.bitwise_equal);
  EXPECT_EQ(s.mismatches, 0);
  EXPECT_EQ(s.judged_dtype, DType::kBF16);
}

TEST(ErrorStats, CoarserGoldenJudges) {
  const Tensor g = tensor(DType::kBF16, {1, 3});
  const Tensor t = tensor(DType::kF32, {1.001, 3});
  const ErrorStats s = compute_stats(g.view, t.view);
  EXPECT_FALSE(s.golden_rounded);
  EXPECT_EQ(s.judged_dtype, DType::kBF16);
  EXPECT_NEAR(s.max_abs, 0.001, 1e-7);
}

// A saturated target must not be hidden by saturating the golden too.
TEST(ErrorStats, GoldenBeyondTheTargetsRangeStays) {
  const Tensor g = tensor(DType::kF32, {1e6, 1});
  const Tensor t = tensor(DType::kE4M3FN, {448, 1});
  const ErrorStats s = compute_stats(g.view, t.view);
  EXPECT_EQ(s.max_abs, 1e6 - 448);
  EXPECT_EQ(s.mismatches, 1);
}

TEST(ErrorStats, LowestIndexAmongEqualMaxima) {
  Values x(200'000, 1), y = x;
  y[70'000] = y[150'000] = 2;
  const ErrorStats s = stats_of(DType::kF32, x, y);
  EXPECT_EQ(s.max_abs_index, 70'000);
  EXPECT_EQ(s.max_rel_index, 70'000);
}

// alpha - 1 and 1 - cosine of nearly equal tensors keep their digits: y is x
// but for one element of 2^20, off by one part in 2^20.
TEST(ErrorStats, FiguresOfNearlyEqualTensorsKeepTheirDigits) {
  const std::int64_t n = std::int64_t{1} << 20;
  Values x(static_cast<std::size_t>(n), 1), y = x;
  y[12345] = 1 + 0x1p-20;
  const ErrorStats s = stats_of(DType::kF32, x, y);
  EXPECT_DOUBLE_EQ(s.alpha - 1, 0x1p-40);
  EXPECT_DOUBLE_EQ(s.bias, 0x1p-40);
  EXPECT_DOUBLE_EQ(s.norm_l2, 0x1p-30);
}

TEST(ErrorStats, ScaleErrorInBf16ShowsInAlpha) {
  const Values x = test::normal(100'000);
  const ErrorStats s =
      stats_of(DType::kBF16, x, test::map(x, [](double v) { return v * 1.5; }));
  EXPECT_NEAR(s.alpha, 1.5, 1e-4);
  EXPECT_GT(s.cosine, 0.99999);
}

// Magnitudes whose squares leave fp32 and fp64's comfortable range.
TEST(ErrorStats, TinyAndHugeMagnitudesInBf16) {
  for (const double scale : {0x1p-120, 0x1p-60, 0x1p+100}) {
    const ErrorStats s =
        stats_of(DType::kBF16, Values(64, scale), Values(64, scale * 1.5));
    EXPECT_EQ(s.rmse, scale * 0.5);
    EXPECT_EQ(s.norm_l2, 0.5);
    EXPECT_EQ(s.golden.l2, scale * 8);
  }
}

TEST(DetailStats, HandComputed) {
  // ulp(1) in f32 is 2^-23.
  const double u = 0x1p-23;
  const DetailStats d =
      detail_of(DType::kF32, {1, 1, 1, 0, 4}, {1 + u, 1 + 3 * u, 1.5, 0, 4},
                {{0, 0, 2}, {}});
  EXPECT_EQ(d.ulp_max, 0x1p22);
  EXPECT_EQ(d.ulp_max_index, 2);
  EXPECT_EQ(d.ulp_mean, (1 + 3 + 0x1p22) / 5);
  EXPECT_EQ(d.ulp_histogram[0], 1);   // 1 ulp
  EXPECT_EQ(d.ulp_histogram[2], 1);   // 3 ulps
  EXPECT_EQ(d.ulp_histogram[22], 1);  // 2^22
  EXPECT_EQ(d.rel_histogram[64 - 23], 1);
  EXPECT_EQ(d.rel_histogram[64 - 22], 1);
  EXPECT_EQ(d.rel_histogram[63], 1);
  EXPECT_EQ(d.share_rel_over_1e3, 0.2);
  EXPECT_EQ(d.over_bound, 2);
  EXPECT_EQ(d.worst_excess, 0x1p21);
  EXPECT_EQ(d.worst_excess_index, 2);
  EXPECT_EQ(d.block32.begin, 0);
}

TEST(DetailStats, ZeroGoldenIsInTheLastBucketAndInUlpsOfTheSmallestValue) {
  const DetailStats d = detail_of(DType::kF16, Values(40, 0.0), [] {
    Values y(40, 0.0);
    y[33] = 0x1p-24;
    return y;
  }());
  EXPECT_EQ(d.rel_histogram[63], 1);
  EXPECT_EQ(d.ulp_max, 1);
  EXPECT_EQ(d.ulp_max_index, 33);
  EXPECT_EQ(d.block32.begin, 32);
  EXPECT_EQ(d.block128.begin, 0);
}

TEST(DetailStats, LeastPositiveThresholdMakesZerosAloneSmall) {
  const DetailRequest request = {
      {}, {std::numeric_limits<double>::denorm_min(), 1e-7}};
  Values x(64, 1.0), y = x;
  x[3] = 0;
  y[3] = 1e-3;
  x[5] = 0;
  y[5] = 1e-8;
  y[9] = 1.25;
  const DetailStats d = detail_of(DType::kF32, x, y, request);
  EXPECT_EQ(d.small_count, 2);
  EXPECT_EQ(d.small_errors, 1);
  EXPECT_EQ(d.large_max_rel, 0.25);
  EXPECT_DOUBLE_EQ(d.large_mean_rel, 0.25 / 62);
}

TEST(DetailStats, WorstBlockOf32IsNamed) {
  Values x(5000, 2.0), y = x;
  for (int i = 3200; i < 3232; ++i) y[static_cast<std::size_t>(i)] = 2.5;
  const DetailStats d = detail_of(DType::kBF16, x, y);
  EXPECT_EQ(d.block32.begin, 3200);
  EXPECT_EQ(d.block32.rmse, 0.5);
  EXPECT_EQ(d.block32.golden_rms, 2);
  EXPECT_EQ(d.block128.begin, 3200);
  EXPECT_EQ(d.block128.rmse, 0.25);
}

}  // namespace
}  // namespace assay
