// Functions of basic operations against the C library's in long double.
#include "assay/numerics/basic_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace assay {
namespace {

constexpr double kUlp = 0x1p-52;  // the relative size of one, at most

void expect_near(double found, long double exact, double ulps, double x) {
  EXPECT_NEAR(found, static_cast<double>(exact),
              ulps * kUlp * static_cast<double>(std::fabs(exact)))
      << x;
}

TEST(BasicMath, LogOfEveryBinade) {
  for (int exponent = -1022; exponent < 1024; ++exponent)
    for (const double m : {1.0, 1.2, 1.41421, 1.41422, 1.5, 1.99999999}) {
      const double x = std::ldexp(m, exponent);
      expect_near(basic_log(x), std::log(static_cast<long double>(x)), 4, x);
    }
  EXPECT_EQ(basic_log(1), 0);
}

TEST(BasicMath, LogNearOneKeepsItsDigits) {
  for (int k = 1; k < 53; ++k)
    for (const double x : {1 - std::ldexp(1, -k), 1 + std::ldexp(1, -k)})
      expect_near(basic_log(x), std::log(static_cast<long double>(x)), 4, x);
}

TEST(BasicMath, Log1p) {
  for (double x = 1e-17; x < 1; x *= 1.37) {
    expect_near(basic_log1p(x), std::log1p(static_cast<long double>(x)), 4, x);
    expect_near(basic_log1p(-x), std::log1p(static_cast<long double>(-x)), 4,
                -x);
  }
}

TEST(BasicMath, ExpOfTheWholeRange) {
  for (double x = -708; x < 709.7; x += 0.3717)
    expect_near(basic_exp(x), std::exp(static_cast<long double>(x)), 4, x);
  EXPECT_EQ(basic_exp(0), 1);
  EXPECT_EQ(basic_exp(709.8), std::numeric_limits<double>::infinity());
  EXPECT_EQ(basic_exp(1e300), std::numeric_limits<double>::infinity());
  EXPECT_EQ(basic_exp(-1e300), 0);
  EXPECT_NEAR(basic_exp(-744), 0x1p-1073, 0x1p-1074);  // subnormal
  EXPECT_TRUE(std::isnan(basic_exp(std::nan(""))));
}

TEST(BasicMath, TanOfHalfTurns) {
  const long double pi = std::acos(-1.0L);
  for (double t = 0x1p-40; t < 0.5; t *= 1.0713) {
    expect_near(tan_pi(t), std::tan(pi * t), 8, t);
    EXPECT_EQ(tan_pi(-t), -tan_pi(t));
  }
  for (int k = 2; k < 52; ++k) {  // towards the pole: 1 / tan(pi e)
    const double e = std::ldexp(1, -k);
    expect_near(tan_pi(0.5 - e), 1 / std::tan(pi * e), 8, e);
  }
  EXPECT_EQ(tan_pi(0), 0);
}

// CPython 3.11: statistics.NormalDist().inv_cdf(p).
TEST(BasicMath, NormalQuantilesAreThoseOfPython) {
  const double rows[][2] = {
      {0x1p-53, -8.209536151601386},  {0x1p-40, -7.047700256664409},
      {1e-12, -7.034483825301132},    {1e-5, -4.2648907939228256},
      {0.001, -3.090232306167813},    {0.02425, -1.9729610513118845},
      {0.074, -1.4466320671589785},   {0.0749999, -1.4395321773759004},
      {0.075, -1.4395314709384557},   {0.0750001, -1.4395307645017297},
      {0.1, -1.2815515655446008},     {0.25, -0.6744897501960817},
      {0.4, -0.2533471031357998},     {0.5000001, 2.506628273311649e-07},
      {0.75, 0.6744897501960817},     {0.925, 1.439531470938456},
      {0.97, 1.8807936081512504},     {0.999, 3.090232306167813},
      {0.99999999, 5.612001243305506}};
  for (const auto& [p, z] : rows)
    EXPECT_NEAR(normal_quantile(p), z, 4e-15 * std::fabs(z)) << p;
}

}  // namespace
}  // namespace assay
