// Random arrays against Philox by hand, and against what their laws promise.
#include "assay/kernels/random_fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/core/philox.h"
#include "assay/kernels/random_kernels.h"
#include "assay/kernels/ref/ref_random.h"
#include "assay/numerics/basic_math.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

constexpr RandomKey kKey = {0x299f31d0a4093822, 0x0370734413198a2e};

double rounded(DType dtype, double value) {
  std::byte bytes[8];
  store_from_double(dtype, value, bytes, 0);
  return load_as_double(dtype, bytes, 0);
}

std::vector<double> drawn(Law law, double a, double b, DType dtype,
                          std::int64_t n, const RandomKey& key = kKey) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(8 * n));
  random_fill(key, law, a, b, dtype, bytes.data(), n);
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(load_as_double(dtype, bytes.data(), i));
  return values;
}

// The 64 bits of element i, by the definition.
std::uint64_t bits_of(std::uint64_t i) {
  const auto word =
      philox4x32({static_cast<std::uint32_t>(i / 2), 0, 0x13198a2e, 0x03707344},
                 {0xa4093822, 0x299f31d0});
  return std::uint64_t{word[i % 2 * 2]} << 32 | word[i % 2 * 2 + 1];
}

TEST(RandomFill, UniformIsThePhiloxOfItsPlace) {
  const std::int64_t n = 40'001;  // three blocks of a thread, the last ragged
  const auto wide = drawn(Law::kUniform, 0, 1, DType::kF64, n);
  const auto narrow = drawn(Law::kUniform, 0, 1, DType::kF32, n);
  for (std::uint64_t i = 0; i < wide.size(); ++i) {
    ASSERT_EQ(wide[i], static_cast<double>(bits_of(i) >> 11) * 0x1p-53) << i;
    ASSERT_EQ(narrow[i], static_cast<double>(bits_of(i) >> 40) * 0x1p-24) << i;
  }
}

// Random123's third vector: counter 243f6a88 85a308d3 13198a2e 03707344.
TEST(RandomFill, ReachesTheBlockOfAnyCounter) {
  std::int64_t low = 0;
  random_integers({0, 0}, 0, 0, &low, 1);
  EXPECT_EQ(static_cast<std::uint64_t>(low), 0x6627e8d5e169c58d);
  const RandomKey ones = {~0ull, ~0ull};
  std::int64_t of_ones = 0;
  random_integers(ones, 0, 0, &of_ones, 1);
  const auto word = philox4x32({0, 0, ~0u, ~0u}, {~0u, ~0u});
  EXPECT_EQ(static_cast<std::uint64_t>(of_ones),
            std::uint64_t{word[0]} << 32 | word[1]);
}

TEST(RandomKernels, EveryTableGivesTheSameBits) {
  constexpr std::int64_t n = kRandomPart;
  std::vector<std::uint64_t> expected(n), words(n);
  for (const std::uint64_t block : {0ull, 0xffffffffull - 20, ~0ull - 50}) {
    kRefRandomKernels.words(kKey.key, kKey.stream, block, expected.data());
    for (const RandomKernels* table : all_random_kernels()) {
      table->words(kKey.key, kKey.stream, block, words.data());
      EXPECT_EQ(words, expected) << table->isa;
    }
  }
}

// Every range of the quantile, its limits, and runs of one range alone.
TEST(RandomKernels, EveryTableGivesTheSameQuantiles) {
  std::vector<double> p;
  for (int k = 1; k <= 53; ++k) p.push_back(std::ldexp(1, -k));
  for (int k = 2; k <= 53; ++k) p.push_back(1 - std::ldexp(1, -k));
  for (const double limit : {0.075, 0.925, 1.3887943864964021e-11})
    for (const double to : {0.0, limit, 1.0})
      p.push_back(std::nextafter(limit, to));
  p.resize(kRandomPart, 0.5);
  for (std::int64_t i = 0; i < 200 * kRandomPart; ++i)
    p.push_back(
        (static_cast<double>(bits_of(static_cast<std::uint64_t>(i)) >> 12) +
         0.5) *
        0x1p-52);
  for (const RandomKernels* table : all_random_kernels())
    for (std::size_t begin = 0; begin < p.size(); begin += kRandomPart) {
      std::vector<double> z(
          p.begin() + static_cast<std::ptrdiff_t>(begin),
          p.begin() + static_cast<std::ptrdiff_t>(begin + kRandomPart));
      table->quantiles(z.data());
      for (std::size_t i = 0; i < z.size(); ++i)
        ASSERT_EQ(z[i], normal_quantile(p[begin + i]))
            << table->isa << " " << p[begin + i];
    }
}

TEST(RandomFill, AnyThreadCountGivesTheSame) {
  for (const Law law : {Law::kUniform, Law::kNormal}) {
    set_thread_count(1);
    const auto alone = drawn(law, 0, 1, DType::kF32, 100'000);
    set_thread_count(3);
    EXPECT_EQ(drawn(law, 0, 1, DType::kF32, 100'000), alone);
    set_thread_count(0);
  }
}

TEST(RandomFill, ALongerArrayBeginsAlike) {
  const auto longer = drawn(Law::kNormal, 0, 1, DType::kF64, 20'000);
  for (const std::int64_t n : {1, 2, 255, 256, 257, 16'385}) {
    const auto shorter = drawn(Law::kNormal, 0, 1, DType::kF64, n);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
  }
}

TEST(RandomFill, NarrowDtypesRoundTheSameNumbers) {
  for (const Law law :
       {Law::kNormal, Law::kExponential, Law::kCauchy, Law::kLogNormal}) {
    const auto wide = drawn(law, 0.5, 2, DType::kF64, 5000);
    const auto f32 = drawn(law, 0.5, 2, DType::kF32, 5000);
    const auto bf16 = drawn(law, 0.5, 2, DType::kBF16, 5000);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      ASSERT_EQ(f32[i], rounded(DType::kF32, wide[i]));
      ASSERT_EQ(bf16[i], rounded(DType::kBF16, f32[i]));
    }
  }
}

TEST(RandomFill, UniformStaysBelowItsEndInEveryDtype) {
  const double ends[][2] = {{0, 1}, {-1, 0}, {-3, -2}, {0.1, 0.3}, {7, 7}};
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const auto& [from, to] : ends) {
      const auto x = drawn(Law::kUniform, from, to, dtype, 100'000);
      const auto [least, most] = std::minmax_element(x.begin(), x.end());
      EXPECT_GE(*least, rounded(dtype, from));
      if (to > from) {
        EXPECT_LT(*most, to) << traits(dtype).name;
      }
      EXPECT_NEAR(*most, to, 0.01 * std::max(1.0, std::fabs(to)));
    }
}

TEST(RandomFill, ExponentialIsNeverZero) {
  const auto x = drawn(Law::kExponential, 1e6, 0, DType::kF16, 100'000);
  EXPECT_EQ(*std::min_element(x.begin(), x.end()), 0x1p-24);
}

// Kolmogorov and Smirnov's distance against the law's own distribution. Of n
// numbers it stays below 2.2 / sqrt(n) but once in 8000.
double distance(std::vector<double> x,
                const std::function<double(double)>& distribution) {
  std::sort(x.begin(), x.end());
  double worst = 0;
  const auto n = static_cast<double>(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double p = distribution(x[i]);
    worst = std::max({worst, p - static_cast<double>(i) / n,
                      static_cast<double>(i + 1) / n - p});
  }
  return worst * std::sqrt(n);
}

TEST(RandomFill, LawsHaveTheirDistributions) {
  const std::int64_t n = 100'000;
  const auto draw = [n](Law law, double a, double b) {
    return drawn(law, a, b, DType::kF64, n);
  };
  EXPECT_LT(distance(draw(Law::kUniform, -2, 6),
                     [](double x) { return (x + 2) / 8; }),
            2.2);
  const auto normal = [](double x) {
    return std::erfc(-(x - 3) / 2 / std::sqrt(2.0)) / 2;
  };
  EXPECT_LT(distance(draw(Law::kNormal, 3, 2), normal), 2.2);
  EXPECT_LT(distance(draw(Law::kExponential, 0.25, 0),
                     [](double x) { return 1 - std::exp(-x / 4); }),
            2.2);
  EXPECT_LT(distance(draw(Law::kCauchy, 1, 2),
                     [](double x) {
                       return 0.5 + std::atan((x - 1) / 2) / std::acos(-1.0);
                     }),
            2.2);
  EXPECT_LT(distance(draw(Law::kLogNormal, 3, 2),
                     [&](double x) { return normal(std::log(x)); }),
            2.2);
}

// Neighbours are independent: the correlation of n pairs is within 5 / sqrt n.
TEST(RandomFill, NeighboursKeysAndStreamsAreUncorrelated) {
  const std::int64_t n = 100'000;
  const auto x = drawn(Law::kNormal, 0, 1, DType::kF64, n);
  const auto other =
      drawn(Law::kNormal, 0, 1, DType::kF64, n, {kKey.key, kKey.stream + 1});
  const auto third =
      drawn(Law::kNormal, 0, 1, DType::kF64, n, {kKey.key + 1, kKey.stream});
  double lag[3] = {}, across = 0, keys = 0;
  for (std::size_t i = 4; i < x.size(); ++i) {
    for (std::size_t k = 0; k < 3; ++k) lag[k] += x[i] * x[i - k - 1];
    across += x[i] * other[i];
    keys += x[i] * third[i];
  }
  const double bound = 5 * std::sqrt(static_cast<double>(n));
  for (const double sum : {lag[0], lag[1], lag[2], across, keys})
    EXPECT_LT(std::fabs(sum), bound);
}

TEST(RandomFill, GeometricCountsTrials) {
  const double p = 0.3;
  const auto x = drawn(Law::kGeometric, p, 0, DType::kF64, 100'000);
  std::map<double, double> counts;
  for (const double value : x) ++counts[value];
  EXPECT_EQ(counts.begin()->first, 1);
  for (int k = 1; k <= 8; ++k) {
    const double expected = 1e5 * p * std::pow(1 - p, k - 1);
    EXPECT_NEAR(counts[k], expected, 5 * std::sqrt(expected));
  }
}

// Pearson's statistic of `counts` that should be alike.
double chi_square(const std::vector<std::int64_t>& counts) {
  const auto total = static_cast<double>(
      std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  const double expected = total / static_cast<double>(counts.size());
  double sum = 0;
  for (const std::int64_t count : counts) {
    const double d = static_cast<double>(count) - expected;
    sum += d * d / expected;
  }
  return sum;
}

TEST(RandomIntegers, AreUniform) {
  std::vector<std::int64_t> x(97'000), counts(97);
  random_integers(kKey, -48, 97, x.data(), 97'000);
  for (const std::int64_t value : x)
    ++counts.at(static_cast<std::size_t>(value + 48));
  EXPECT_LT(chi_square(counts), 96 + 5 * std::sqrt(2.0 * 96));
}

TEST(RandomIntegers, WideRangesReachTheirEnds) {
  std::vector<std::int64_t> x(10'000);
  random_integers(kKey, INT64_MIN, 0, x.data(), 10'000);
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  EXPECT_LT(*least, INT64_MIN / 100 * 99);
  EXPECT_GT(*most, INT64_MAX / 100 * 99);
  random_integers(kKey, INT64_MAX - 1, 2, x.data(), 10'000);
  EXPECT_EQ(*std::max_element(x.begin(), x.end()), INT64_MAX);
  EXPECT_EQ(*std::min_element(x.begin(), x.end()), INT64_MAX - 1);
  // Three quarters of 2^64: halves of 64 bits alone would be uneven there.
  std::int64_t low_half = 0;
  random_integers(kKey, 0, 3ull << 62, x.data(), 10'000);
  for (const std::int64_t value : x)
    low_half += static_cast<std::uint64_t>(value) < (3ull << 61);
  EXPECT_NEAR(static_cast<double>(low_half), 5000, 250);
}

TEST(RandomPermutation, EveryOrderOfFourIsAsLikely) {
  std::map<std::vector<std::int64_t>, std::int64_t> counts;
  for (std::uint64_t key = 0; key < 24'000; ++key) {
    std::vector<std::int64_t> order(4);
    random_permutation({key, 5}, order.data(), 4);
    ++counts[order];
  }
  ASSERT_EQ(counts.size(), 24u);
  std::vector<std::int64_t> of_orders;
  for (const auto& [order, count] : counts) {
    EXPECT_THAT(order, testing::UnorderedElementsAre(0, 1, 2, 3));
    of_orders.push_back(count);
  }
  EXPECT_LT(chi_square(of_orders), 23 + 5 * std::sqrt(2.0 * 23));
}

// Element i from the end trades places with below(block i, i + 1).
TEST(RandomPermutation, IsFisherAndYates) {
  for (const std::int64_t n : {1, 2, 128, 129, 300}) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n)), expected;
    random_permutation(kKey, order.data(), n);
    for (std::int64_t i = 0; i < n; ++i) expected.push_back(i);
    for (std::uint64_t i = static_cast<std::uint64_t>(n) - 1; i > 0; --i) {
      const auto word =
          philox4x32({static_cast<std::uint32_t>(i), 0, 0x13198a2e, 0x03707344},
                     {0xa4093822, 0x299f31d0});
      __extension__ using Wide = unsigned __int128;
      // The low 64 bits of the block cannot matter for so few places, but for
      // a chance of 2^-55.
      const Wide high = Wide{word[0]} << 32 | word[1];
      std::swap(expected[i],
                expected[static_cast<std::size_t>(high * (i + 1) >> 64)]);
    }
    EXPECT_EQ(order, expected) << n;
  }
}

TEST(RandomPermutation, OfMany) {
  std::vector<std::int64_t> order(10'007), sorted(10'007);
  random_permutation(kKey, order.data(), 10'007);
  std::iota(sorted.begin(), sorted.end(), 0);
  EXPECT_NE(order, sorted);
  std::sort(order.begin(), order.end());
  EXPECT_EQ(order, sorted);
  random_permutation(kKey, nullptr, 0);
}

TEST(RandomBernoulli, ComparesTheUniformOfThePlace) {
  const auto u = drawn(Law::kUniform, 0, 1, DType::kF64, 5000);
  std::vector<std::uint8_t> one(5000), each(5000);
  const std::vector<double> p(5000, 0.3);
  random_bernoulli(kKey, 0.3, one.data(), 5000);
  random_bernoulli(kKey, p.data(), each.data(), 5000);
  EXPECT_EQ(one, each);
  for (std::size_t i = 0; i < 5000; ++i) EXPECT_EQ(one[i], u[i] < 0.3);
  random_bernoulli(kKey, 1.0, one.data(), 5000);
  EXPECT_THAT(one, testing::Each(1));
  random_bernoulli(kKey, 0.0, one.data(), 5000);
  EXPECT_THAT(one, testing::Each(0));
}

TEST(RandomChoice, FollowsTheWeights) {
  const double weights[] = {0, 1, 2, 5, 0};
  std::vector<std::int64_t> out(80'000);
  random_choice(kKey, {1, 5, 80'000, true}, weights, out.data());
  std::vector<double> counts(5);
  for (const std::int64_t i : out) ++counts.at(static_cast<std::size_t>(i));
  EXPECT_EQ(counts[0] + counts[4], 0);
  for (std::size_t i = 1; i < 4; ++i)
    EXPECT_NEAR(counts[i], 1e4 * weights[i], 5 * std::sqrt(1e4 * weights[i]));
}

// Without replacement: first 2 of weights 1, 2, 5, then of the rest; P(i, j) =
// w_i / 8 * w_j / (8 - w_i).
TEST(RandomChoice, WithoutReplacementDrawsFromTheRest) {
  const std::int64_t rows = 56'000;
  std::vector<double> weights;
  for (std::int64_t i = 0; i < rows; ++i)
    weights.insert(weights.end(), {1, 2, 5, 0});
  std::vector<std::int64_t> out(static_cast<std::size_t>(2 * rows));
  random_choice(kKey, {rows, 4, 2, false}, weights.data(), out.data());
  std::map<std::pair<std::int64_t, std::int64_t>, double> counts;
  for (std::size_t i = 0; i < out.size(); i += 2)
    ++counts[{out[i], out[i + 1]}];
  ASSERT_EQ(counts.size(), 6u);
  const double w[] = {1, 2, 5};
  for (const auto& [pair, count] : counts) {
    const auto [i, j] = pair;
    const double expected =
        static_cast<double>(rows) * w[i] / 8 * w[j] / (8 - w[i]);
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << i << " " << j;
  }
}

TEST(RandomFill, RefusesWhatALawCannotDo) {
  float out[4];
  auto* bytes = reinterpret_cast<std::byte*>(out);
  const auto fill = [&](Law law, double a, double b, DType dtype) {
    random_fill(kKey, law, a, b, dtype, bytes, 4);
  };
  EXPECT_THROW(fill(Law::kNormal, 0, -1, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kNormal, NAN, 1, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kUniform, 1, 0, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kUniform, -1e308, 1e308, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kExponential, 0, 0, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kGeometric, 1, 0, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kCauchy, 0, 0, DType::kF32), Error);
  EXPECT_THROW(fill(Law::kNormal, 0, 1, DType::kI32), Error);
  std::uint8_t bit;
  EXPECT_THROW(random_bernoulli(kKey, 1.5, &bit, 1), Error);
  std::int64_t index[3];
  for (const std::vector<double>& weights :
       {std::vector<double>{0, 0}, {1, -1}, {1, HUGE_VAL}, {NAN, 1}})
    EXPECT_THROW(random_choice(kKey, {1, 2, 1, true}, weights.data(), index),
                 Error);
  const double two[] = {1, 0, 2};
  EXPECT_THROW(random_choice(kKey, {1, 3, 3, false}, two, index), Error);
}

}  // namespace
}  // namespace assay
