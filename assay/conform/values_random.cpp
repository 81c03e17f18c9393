#include "assay/conform/values_random.h"

#include <cmath>
#include <unordered_map>

namespace assay::conform {
namespace {

std::int64_t scaled(std::uint64_t bits, std::int64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(
      Wide{bits} * static_cast<std::uint64_t>(count) >> 64);
}

// log(x) of a normal x > 0 by the series of 2 atanh((m - 1) / (m + 1)).
double basic_log(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;  // at most 0.0295
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * kLn2 + 2 * s * sum;
}

template <std::size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = 0;
  for (std::size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// Numerators and denominators of AS 241's three ranges.
constexpr double kA[] = {3.3871328727963666080,   1.3314166789178437745e2,
                         1.9715909503065514427e3, 1.3731693765509461125e4,
                         4.5921953931549871457e4, 6.7265770927008700853e4,
                         3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double kB[] = {1.0,
                         4.2313330701600911252e1,
                         6.8718700749205790830e2,
                         5.3941960214247511077e3,
                         2.1213794301586595867e4,
                         3.9307895800092710610e4,
                         2.8729085735721942674e4,
                         5.2264952788528545610e3};
constexpr double kC[] = {1.42343711074968357734,    4.63033784615654529590,
                         5.76949722146069140550,    3.64784832476320460504,
                         1.27045825245236838258,    2.41780725177450611770e-1,
                         2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double kD[] = {1.0,
                         2.05319162663775882187,
                         1.67638483018380384940,
                         6.89767334985100004550e-1,
                         1.48103976427480074590e-1,
                         1.51986665636164571966e-2,
                         5.47593808499534494600e-4,
                         1.05075007164441684324e-9};
constexpr double kE[] = {6.65790464350110377720,    5.46378491116411436990,
                         1.78482653991729133580,    2.96560571828504891230e-1,
                         2.65321895265761230930e-2, 1.24266094738807843860e-3,
                         2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double kF[] = {1.0,
                         5.99832206555887937690e-1,
                         1.36929880922735805310e-1,
                         1.48753612908506148525e-2,
                         7.86869131145613259100e-4,
                         1.84631831751005468180e-5,
                         1.42151175831644588870e-7,
                         2.04426310338993978564e-15};

}  // namespace

double ElementRandom::uniform(int which) const {
  return (static_cast<double>(bits(which) >> 12) + 0.5) * 0x1p-52;
}

std::int64_t ElementRandom::below(std::int64_t count, int which) const {
  return scaled(bits(which), count);
}

double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * polynomial(kA, r) / polynomial(kB, r);
  }
  const double tail = std::sqrt(-basic_log(q < 0 ? p : 1 - p));
  const double magnitude =
      tail <= 5 ? polynomial(kC, tail - 1.6) / polynomial(kD, tail - 1.6)
                : polynomial(kE, tail - 5) / polynomial(kF, tail - 5);
  return q < 0 ? -magnitude : magnitude;
}

std::int64_t OrderedRandom::below(std::int64_t count) {
  const std::uint64_t high = stream_.next();
  return scaled(high << 32 | stream_.next(), count);
}

// Fisher-Yates over a sequence of which only the moved elements are kept.
std::vector<std::int64_t> choose(OrderedRandom& random, std::int64_t count,
                                 std::int64_t wanted) {
  std::unordered_map<std::int64_t, std::int64_t> moved;
  const auto at = [&moved](std::int64_t place) {
    const auto found = moved.find(place);
    return found == moved.end() ? place : found->second;
  };
  std::vector<std::int64_t> chosen;
  for (std::int64_t i = 0; i < wanted; ++i) {
    const std::int64_t place = i + random.below(count - i);
    chosen.push_back(at(place));
    moved[place] = at(i);
  }
  return chosen;
}

}  // namespace assay::conform
