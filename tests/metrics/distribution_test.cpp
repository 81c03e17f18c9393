// Against scipy 1.17 (tests/data/precheck/make_distributions.py), and published
// tables.
#include "assay/metrics/distribution.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace assay {
namespace {

double call(const std::string& name, const std::vector<double>& a) {
  const auto n = [&](std::size_t i) { return static_cast<std::int64_t>(a[i]); };
  if (name == "log_gamma") return log_gamma(a[0]);
  if (name == "gamma_q") return gamma_q(a[0], a[1]);
  if (name == "beta_i") return beta_i(a[0], a[1], a[2]);
  if (name == "poisson_cdf") return poisson_cdf(a[0], a[1]);
  if (name == "binomial_lower") return binomial_lower(n(0), n(1), a[2]);
  if (name == "binomial_upper") return binomial_upper(n(0), n(1), a[2]);
  if (name == "chi_square_p") return chi_square_p(a[0], a[1]);
  if (name == "ks_p") return ks_p(n(0), a[1]);
  if (name == "normal_cdf") return normal_cdf(a[0]);
  ADD_FAILURE() << name;
  return 0;
}

TEST(Distribution, AgreesWithScipy) {
  std::ifstream file(ASSAY_TEST_DATA "/precheck/distributions.tsv");
  std::string line;
  int rows = 0;
  for (; std::getline(file, line); ++rows) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    std::vector<double> numbers;
    for (double x; words >> x;) numbers.push_back(x);
    ASSERT_GE(numbers.size(), 2u) << line;
    const double expected = numbers.back();
    numbers.pop_back();
    const double relative = name == "ks_p" ? 1e-6 : 1e-9;
    const double absolute = name == "log_gamma" ? 1e-13 : 0;
    EXPECT_NEAR(call(name, numbers), expected,
                relative * std::abs(expected) + absolute)
        << line;
  }
  EXPECT_EQ(rows, 54);
}

TEST(Distribution, KolmogorovTableOfSmirnov) {
  // Critical values of Miller 1956, two-sided.
  EXPECT_NEAR(ks_p(10, 0.40925), 0.05, 2e-5);
  EXPECT_NEAR(ks_p(20, 0.35241), 0.01, 2e-5);
  // Smirnov 1948: 1.3581 is the limit's 5 % point.
  EXPECT_NEAR(ks_two_sample_p(100000000, 100000000, 1.3581 * std::sqrt(2e-8)),
              0.05, 1e-4);
}

TEST(Distribution, PoissonOfLargeRates) {
  // scipy.stats.poisson.cdf.
  EXPECT_NEAR(poisson_cdf(2000000, 2e6), 0.5001880631825008, 1e-7);
  EXPECT_NEAR(poisson_cdf(1997000, 2e6), 0.016944943934034826, 1e-7);
  EXPECT_NEAR(poisson_cdf(1e12 + 1e6, 1e12), 0.8413448670538446, 1e-7);
}

TEST(Distribution, BoundsHoldTheTails) {
  for (const double d : {0.1, 0.15, 0.2})
    EXPECT_GE(ks_bound(100, d), ks_p(100, d));
  // 60 heads of 100: exactly 0.0569, and no more than the bound.
  EXPECT_GE(bernstein_p(10, 25, 0.5), binomial_p(60, 100, 0.5));
  EXPECT_NEAR(binomial_p(60, 100, 0.5), 0.056887933640980784, 1e-12);
  EXPECT_LT(bernstein_p(100, 25, 0.5), 1e-20);
}

TEST(Distribution, TwoSamplesStepTogetherAtEqualValues) {
  const std::vector<double> a = {1, 1, 2, 3}, b = {1, 2, 2, 4};
  EXPECT_DOUBLE_EQ(ks_two_sample(a, b), 0.25);
  EXPECT_DOUBLE_EQ(ks_two_sample(a, a), 0);
}

}  // namespace
}  // namespace assay
