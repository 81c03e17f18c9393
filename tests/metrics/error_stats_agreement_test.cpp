// compute_stats and compute_detail against the letter of the header, over
// every dtype, every short length and the edges of chunks and blocks.
#include <gtest/gtest.h>

#include <random>

#include "assay/base/parallel.h"
#include "assay/kernels/kernels.h"
#include "assay/metrics/error_stats.h"
#include "tests/metrics/error_stats_naive.h"
#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::Values;

constexpr DetailRequest kRequest = {{1e-6, 2e-3, 0.5}, {0.125, 1e-3}};

// Of the sums of a pair judged in this dtype, relative to their magnitudes.
double tolerance(DType dtype) {
  const int bits = traits(component(dtype)).bits;
  if (bits <= 16 && !is_exact(dtype)) return 4e-6;
  return bits <= 8 ? 1e-6 : 2e-7;
}

struct PairOf {
  Tensor golden, target;
};

// Noise of some ulps, zeros of both signs, flips, `special`: NaN and inf.
PairOf random_pair(DType g, DType t, std::int64_t n, bool special,
                   std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal(0, is_exact(g) ? 30 : 1);
  Values x, y;
  const std::int64_t parts = n * (is_complex(g) ? 2 : 1);
  for (std::int64_t i = 0; i < parts; ++i) {
    double a = rng() % 11 ? normal(rng) : 0.0;
    double b = rng() % 3 ? a + normal(rng) * 0.02 : a;
    if (is_exact(g)) b = rng() % 3 ? a : a + 2;
    if (rng() % 50 == 0) b = -b;
    if (special && rng() % 40 == 0) (rng() % 2 ? a : b) = 0.0 / 0.0;
    if (special && rng() % 40 == 0) b = rng() % 2 ? 1 / 0.0 : -1 / 0.0;
    if (special && rng() % 60 == 0) a = b = 1 / 0.0;
    x.push_back(a);
    y.push_back(b);
  }
  PairOf pair{Tensor::zeros(g, {n}), Tensor::zeros(t, {n})};
  for (std::int64_t i = 0; i < parts; ++i) {
    const auto k = static_cast<std::size_t>(i);
    store_from_double(g, x[k], pair.golden.mutable_data(), i,
                      Overflow::kSpecial);
    store_from_double(t, y[k], pair.target.mutable_data(), i,
                      Overflow::kSpecial);
  }
  return pair;
}

void expect_near(double actual, double expected, double scale, double tol,
                 const char* what) {
  if (std::isinf(expected)) {
    EXPECT_EQ(actual, expected) << what;
  } else {
    EXPECT_NEAR(actual, expected, tol * scale) << what;
  }
}

void expect_side(const SideStats& a, const SideStats& b, double tol) {
  EXPECT_EQ(a.nan, b.nan);
  EXPECT_EQ(a.pos_inf, b.pos_inf);
  EXPECT_EQ(a.neg_inf, b.neg_inf);
  EXPECT_EQ(a.min, b.min);
  EXPECT_EQ(a.max, b.max);
  expect_near(a.mean, b.mean, b.l2, tol, "mean");
  expect_near(a.l2, b.l2, b.l2, tol, "l2");
}

void expect_stats(const ErrorStats& a, const ErrorStats& b, double tol) {
  EXPECT_EQ(a.count, b.count);
  EXPECT_EQ(a.finite, b.finite);
  expect_side(a.golden, b.golden, tol);
  expect_side(a.target, b.target, tol);
  EXPECT_EQ(a.mismatches, b.mismatches);
  EXPECT_EQ(a.nonfinite_mismatches, b.nonfinite_mismatches);
  EXPECT_EQ(a.first_nonfinite_mismatch, b.first_nonfinite_mismatch);
  EXPECT_EQ(a.zero_sign_flips, b.zero_sign_flips);
  EXPECT_EQ(a.sign_flips, b.sign_flips);
  EXPECT_EQ(a.max_abs, b.max_abs);
  EXPECT_EQ(a.max_abs_index, b.max_abs_index);
  expect_near(a.max_rel, b.max_rel, b.max_rel, 2.4e-7, "max_rel");
  if (a.max_rel == b.max_rel) {
    EXPECT_EQ(a.max_rel_index, b.max_rel_index);
  }
  expect_near(a.mean_abs, b.mean_abs, b.mean_abs, tol, "mean_abs");
  expect_near(a.mean_rel, b.mean_rel, b.mean_rel, std::max(tol, 3e-7),
              "mean_rel");
  expect_near(a.rmse, b.rmse, b.rmse, tol, "rmse");
  expect_near(a.norm_l2, b.norm_l2, b.norm_l2, tol, "norm_l2");
  expect_near(a.bias, b.bias, b.mean_abs, tol, "bias");
  expect_near(a.alpha, b.alpha, 1 + b.norm_l2, tol, "alpha");
  expect_near(a.cosine, b.cosine, 1, tol, "cosine");
}

void expect_block(const WorstBlock& a, const WorstBlock& b) {
  EXPECT_EQ(a.begin, b.begin);
  expect_near(a.rmse, b.rmse, b.rmse, 1e-12, "block rmse");
  expect_near(a.golden_rms, b.golden_rms, b.golden_rms, 1e-12, "block rms");
}

void expect_detail(const DetailStats& a, const DetailStats& b, double tol) {
  EXPECT_EQ(a.ulp_max, b.ulp_max);
  EXPECT_EQ(a.ulp_max_index, b.ulp_max_index);
  expect_near(a.ulp_mean, b.ulp_mean, b.ulp_mean, tol, "ulp_mean");
  EXPECT_EQ(a.rel_histogram, b.rel_histogram);
  EXPECT_EQ(a.ulp_histogram, b.ulp_histogram);
  EXPECT_EQ(a.over_bound, b.over_bound);
  expect_near(a.worst_excess, b.worst_excess, b.worst_excess, 3e-7, "excess");
  expect_block(a.block32, b.block32);
  expect_block(a.block128, b.block128);
  EXPECT_EQ(a.small_count, b.small_count);
  EXPECT_EQ(a.small_errors, b.small_errors);
  expect_near(a.large_max_rel, b.large_max_rel, b.large_max_rel, 3e-7, "large");
  expect_near(a.large_mean_rel, b.large_mean_rel, b.large_mean_rel,
              std::max(tol, 3e-7), "large mean");
  expect_near(a.large_rmse, b.large_rmse, b.large_rmse, std::max(tol, 3e-7),
              "large rmse");
}

void check(const PairOf& pair, double tol) {
  const TensorView &g = pair.golden.view, &t = pair.target.view;
  ErrorStats stats = compute_stats(g, t);
  expect_stats(stats, test::naive_stats(g, t), tol);
  compute_detail(g, t, kRequest, stats);
  expect_detail(*stats.detail,
                test::naive_detail(g, t, stats.judged_dtype, kRequest),
                std::max(tol, 1e-6));
}

class EveryDType : public testing::TestWithParam<DTypeTraits> {
 protected:
  const DType dtype_ = GetParam().id;
};

TEST_P(EveryDType, LengthsTo130) {
  for (std::int64_t n = 0; n <= 130; ++n) {
    SCOPED_TRACE(n);
    const auto seed = static_cast<std::uint64_t>(n) + 1;
    check(random_pair(dtype_, dtype_, n, n % 2 == 1, seed), tolerance(dtype_));
  }
}

TEST_P(EveryDType, EdgesOfChunksAndBlocks) {
  for (const std::int64_t edge : {kChunk, 8 * kChunk}) {
    for (const std::int64_t n : {edge - 1, edge, edge + 1, edge + 33}) {
      SCOPED_TRACE(n);
      check(random_pair(dtype_, dtype_, n, false, 5), tolerance(dtype_));
    }
  }
}

TEST_P(EveryDType, SpecialValuesInSomeChunks) {
  check(random_pair(dtype_, dtype_, 2 * kChunk + 77, true, 9),
        tolerance(dtype_));
}

TEST_P(EveryDType, EqualPairs) {
  const PairOf pair = random_pair(dtype_, dtype_, kChunk + 45, true, 3);
  const ErrorStats s = compute_stats(pair.golden.view, pair.golden.view);
  EXPECT_TRUE(s.bitwise_equal);
  expect_stats(s, test::naive_stats(pair.golden.view, pair.golden.view),
               tolerance(dtype_));
}

TEST_P(EveryDType, OneDifferentElementIsNotBitwiseEqual) {
  for (const std::int64_t n : {1, 31, 32, 100, 9000}) {
    const PairOf pair = random_pair(dtype_, dtype_, n, false, 3);
    Tensor other = Tensor::zeros(dtype_, {n});
    gather(pair.golden.view, 0, n, other.mutable_data());
    other.mutable_data()[*storage_bytes(dtype_, n) - 1] ^= std::byte{1};
    EXPECT_FALSE(compute_stats(pair.golden.view, other.view).bitwise_equal);
    EXPECT_TRUE(
        compute_stats(pair.golden.view, pair.golden.view).bitwise_equal);
  }
}

INSTANTIATE_TEST_SUITE_P(ErrorStats, EveryDType, testing::ValuesIn(kDTypes),
                         [](const auto& test) {
                           return std::string(test.param.short_name);
                         });

struct Mixed {
  DType golden, target;
};
class MixedDTypes : public testing::TestWithParam<Mixed> {};

TEST_P(MixedDTypes, AgreeWithTheHeader) {
  const auto [g, t] = GetParam();
  for (const std::int64_t n : {5, 100, 9000}) {
    SCOPED_TRACE(n);
    check(random_pair(g, t, n, n == 100, 11), 4e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(
    ErrorStats, MixedDTypes,
    testing::Values(
        Mixed{DType::kF32, DType::kBF16}, Mixed{DType::kF64, DType::kF32},
        Mixed{DType::kF64, DType::kBF16}, Mixed{DType::kF32, DType::kF16},
        Mixed{DType::kBF16, DType::kF32}, Mixed{DType::kF16, DType::kBF16},
        Mixed{DType::kF32, DType::kE4M3FN}, Mixed{DType::kE4M3FN, DType::kE5M2},
        Mixed{DType::kI32, DType::kF32}, Mixed{DType::kI32, DType::kI64},
        Mixed{DType::kU64, DType::kI8}, Mixed{DType::kC128, DType::kC64}),
    [](const auto& test) {
      return std::string(traits(test.param.golden).short_name) + "_" +
             std::string(traits(test.param.target).short_name);
    });

// Bit patterns of all figures.
std::vector<double> figures(const ErrorStats& s) {
  const DetailStats& d = *s.detail;
  return {s.golden.mean,
          s.golden.l2,
          s.target.mean,
          s.target.l2,
          s.max_abs,
          s.mean_abs,
          s.max_rel,
          s.mean_rel,
          s.rmse,
          s.norm_l2,
          s.cosine,
          s.bias,
          s.alpha,
          d.ulp_mean,
          d.ulp_max,
          d.worst_excess,
          d.large_rmse,
          d.block32.rmse,
          d.block128.rmse,
          d.large_mean_rel,
          static_cast<double>(s.max_abs_index),
          static_cast<double>(d.ulp_max_index)};
}

TEST(ErrorStatsThreads, SameBitsForAnyNumberOfThreads) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64,
                            DType::kE4M3FN, DType::kI64}) {
    SCOPED_TRACE(traits(dtype).short_name);
    const PairOf pair = random_pair(dtype, dtype, 400'000, true, 21);
    std::vector<std::vector<double>> seen;
    for (const int threads : {1, 2, 16}) {
      set_thread_count(threads);
      ErrorStats s = compute_stats(pair.golden.view, pair.target.view);
      compute_detail(pair.golden.view, pair.target.view, kRequest, s);
      seen.push_back(figures(s));
    }
    set_thread_count(0);
    EXPECT_EQ(seen[0], seen[1]);
    EXPECT_EQ(seen[0], seen[2]);
  }
}

}  // namespace
}  // namespace assay
