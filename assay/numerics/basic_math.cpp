#include "assay/numerics/basic_math.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "assay/numerics/as241.h"

namespace assay {
namespace {

constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kPi = 0x1.921fb54442d18p+1;

// The series of 2 atanh(s); |s| at most 0.1716.
double twice_atanh(double s) {
  const double square = s * s;
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2 * s * sum;
}

// 1 / k!, exact before it is rounded: k! is below 2^53 up to 18, and of 19 and
// 20 it has that many trailing zeros.
constexpr auto kInverseFactorial = [] {
  std::array<double, 21> values{};
  double factorial = 1;
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (k > 0) factorial *= static_cast<double>(k);
    values[k] = 1 / factorial;
  }
  return values;
}();

template <std::size_t N>
double polynomial(const double (&coefficients)[N], double x) {
  double sum = 0;
  for (std::size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// |q| at most 0.425, q = p - 0.5.
double central_quantile(double q) {
  const double r = 0.180625 - q * q;
  return q * polynomial(as241::kA, r) / polynomial(as241::kB, r);
}

double tail_quantile(double p) {
  const double q = p - 0.5;
  const double tail = std::sqrt(-basic_log(q < 0 ? p : 1 - p));
  const double magnitude =
      tail <= as241::kFar
          ? polynomial(as241::kC, tail - 1.6) /
                polynomial(as241::kD, tail - 1.6)
          : polynomial(as241::kE, tail - 5) / polynomial(as241::kF, tail - 5);
  return q < 0 ? -magnitude : magnitude;
}

bool is_central(double p) { return std::fabs(p - 0.5) <= as241::kCentral; }

// The sum of y^k / k! over k = last, last - 2 ... with alternating signs, the
// lowest positive: sin y / y of odd `last`, cos y of even.
double alternating_series(double y, std::size_t last) {
  const double square = y * y;
  double sum = 0;
  for (std::size_t k = last + 2; k >= 2; k -= 2)
    sum = kInverseFactorial[k - 2] - square * sum;
  return sum;
}

// |x| at most 1/4.
double tan_pi_near_zero(double x) {
  const double y = kPi * x;
  return y * alternating_series(y, 19) / alternating_series(y, 20);
}

}  // namespace

double basic_log(double x) {
  constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;
  int exponent = 0;
  double m = std::frexp(x, &exponent);  // exact
  if (m < kSqrtHalf) {
    m *= 2;
    --exponent;
  }
  return exponent * kLn2 + twice_atanh((m - 1) / (m + 1));
}

double basic_log1p(double x) {
  const double s = x / (2 + x);
  return std::fabs(s) <= 0.1715 ? twice_atanh(s) : basic_log(1 + x);
}

double basic_exp(double x) {
  if (x > 710) return std::numeric_limits<double>::infinity();
  if (x < -746) return 0;
  if (std::isnan(x)) return x;
  // ln 2 in two parts; the first has 21 bits to spare, its multiples are exact.
  constexpr double kLn2High = 0x1.62e42feep-1, kLn2Low = 0x1.a39ef35793c76p-33;
  const double multiple = std::floor(x / kLn2 + 0.5);
  const double r = (x - multiple * kLn2High) - multiple * kLn2Low;
  double sum = 0;
  for (std::size_t k = 15; k-- > 0;) sum = sum * r + kInverseFactorial[k];
  return std::ldexp(sum, static_cast<int>(multiple));
}

double tan_pi(double t) {
  if (std::fabs(t) <= 0.25) return tan_pi_near_zero(t);
  const double inverse = 1 / tan_pi_near_zero(0.5 - std::fabs(t));
  return t < 0 ? -inverse : inverse;
}

double normal_quantile(double p) {
  return is_central(p) ? central_quantile(p - 0.5) : tail_quantile(p);
}

}  // namespace assay
