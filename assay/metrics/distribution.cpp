#include "assay/metrics/distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace assay {
namespace {

constexpr double kTiny = 1e-300;
constexpr double kEps = 1e-16;

double clamped(double p) { return std::min(1.0, std::max(0.0, p)); }

// Away from 0, which Lentz's method must not divide by.
double apart(double x) { return std::abs(x) < kTiny ? kTiny : x; }

double gamma_series(double a, double x, double log_front) {
  double term = 1 / a, sum = term;
  for (double n = a + 1; term > sum * kEps; ++n) sum += term *= x / n;
  return sum * std::exp(log_front);
}

double gamma_fraction(double a, double x, double log_front) {
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / apart(b), h = d;
  for (double i = 1; i < 1e7; ++i) {
    const double an = -i * (i - a);
    b += 2;
    d = 1 / apart(an * d + b);
    c = apart(b + an / c);
    h *= d * c;
    if (std::abs(d * c - 1) < kEps * 4) break;
  }
  return h * std::exp(log_front);
}

double beta_fraction(double a, double b, double x) {
  double c = 1, d = 1 / apart(1 - (a + b) * x / (a + 1)), h = d;
  for (double m = 1; m < 1e7; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / apart(1 + even * d);
    c = apart(1 + even / c);
    h *= d * c;
    const double odd =
        -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / apart(1 + odd * d);
    c = apart(1 + odd / c);
    h *= d * c;
    if (std::abs(d * c - 1) < kEps * 4) break;
  }
  return h;
}

// 2 sum (-1)^(k-1) exp(-2 k^2 t^2).
double kolmogorov_limit(double t) {
  if (t < 0.2) return 1;  // all but 1e-12
  double sum = 0;
  for (int k = 1; k <= 100; ++k) {
    const double term = std::exp(-2.0 * k * k * t * t);
    sum += k % 2 ? term : -term;
    if (term < kEps * 1e-4) break;
  }
  return clamped(2 * sum);
}

double effective(double n, double d) {
  const double root = std::sqrt(n);
  return (root + 0.12 + 0.11 / root) * d;
}

// P(sup (F_n - F) >= d) of one side; every term is positive.
double one_sided(double n, double d) {
  double sum = 0;
  const auto last = static_cast<std::int64_t>(std::floor(n * (1 - d)));
  const double log_n = log_gamma(n + 1);
  for (std::int64_t i = 0; i <= last; ++i) {
    const double j = static_cast<double>(i), rest = 1 - d - j / n;
    if (rest <= 0) {  // 0^0 at the very end
      if (n == j) sum += std::pow(d + 1, n - 1);
      continue;
    }
    sum += std::exp(log_n - log_gamma(j + 1) - log_gamma(n - j + 1) +
                    (j - 1) * std::log(d + j / n) + (n - j) * std::log(rest));
  }
  return clamped(d * sum);
}

using Matrix = std::vector<double>;

Matrix product(const Matrix& a, const Matrix& b, std::size_t m) {
  Matrix c(m * m);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t k = 0; k < m; ++k)
      for (std::size_t j = 0; j < m; ++j)
        c[i * m + j] += a[i * m + k] * b[k * m + j];
  return c;
}

// The matrix H of Marsaglia, Tsang and Wang, of order m, h = k - n d.
Matrix start_matrix(std::size_t m, double h) {
  Matrix a(m * m);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < m && j <= i + 1; ++j) a[i * m + j] = 1;
  for (std::size_t i = 0; i < m; ++i) {
    a[i * m] -= std::pow(h, static_cast<double>(i + 1));
    a[(m - 1) * m + i] -= std::pow(h, static_cast<double>(m - i));
  }
  if (2 * h > 1) a[(m - 1) * m] += std::pow(2 * h - 1, static_cast<double>(m));
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j <= i; ++j)
      a[i * m + j] /= std::tgamma(static_cast<double>(i - j + 2));
  return a;
}

// P(sup |F_n - F| < d); n is small enough that no power overflows.
double marsaglia(std::int64_t n, double d) {
  const double nd = static_cast<double>(n) * d;
  const auto k = static_cast<std::size_t>(nd) + 1;
  const std::size_t m = 2 * k - 1;
  Matrix power = start_matrix(m, static_cast<double>(k) - nd);
  Matrix result(m * m);
  for (std::size_t i = 0; i < m; ++i) result[i * m + i] = 1;
  for (std::int64_t rest = n; rest > 0; rest /= 2) {
    if (rest % 2) result = product(result, power, m);
    if (rest > 1) power = product(power, power, m);
  }
  double p = result[(k - 1) * m + k - 1];
  for (std::int64_t i = 1; i <= n; ++i)
    p *= static_cast<double>(i) / static_cast<double>(n);
  return p;
}

}  // namespace

double log_gamma(double x) {
  double shift = 0;
  for (; x < 10; ++x) shift += std::log(x);
  const double r = 1 / (x * x);
  const double series =
      (1.0 / 12 - r * (1.0 / 360 - r * (1.0 / 1260 -
                                        r * (1.0 / 1680 - r * (1.0 / 1188))))) /
      x;
  return (x - 0.5) * std::log(x) - x + 0.5 * std::log(2 * std::numbers::pi) +
         series - shift;
}

double gamma_q(double a, double x) {
  if (!(x > 0)) return 1;
  if (std::isinf(x)) return 0;
  const double front = a * std::log(x) - x - log_gamma(a);
  return clamped(x < a + 1 ? 1 - gamma_series(a, x, front)
                           : gamma_fraction(a, x, front));
}

double beta_i(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2))
    return clamped(front * beta_fraction(a, b, x) / a);
  return clamped(1 - front * beta_fraction(b, a, 1 - x) / b);
}

double normal_cdf(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

double poisson_cdf(double k, double rate) {
  if (k < 0) return 0;
  const double a = std::floor(k) + 1;
  if (rate <= 1e6) return gamma_q(a, rate);
  const double third = 1 / (9 * a);
  return normal_cdf((1 - third - std::cbrt(rate / a)) / std::sqrt(third));
}

double binomial_upper(std::int64_t k, std::int64_t n, double p) {
  if (k <= 0) return 1;
  if (k > n) return 0;
  return beta_i(static_cast<double>(k), static_cast<double>(n - k + 1), p);
}

double binomial_lower(std::int64_t k, std::int64_t n, double p) {
  return binomial_upper(n - k, n, 1 - p);
}

double binomial_p(std::int64_t k, std::int64_t n, double p) {
  return clamped(2 *
                 std::min(binomial_lower(k, n, p), binomial_upper(k, n, p)));
}

double chi_square_p(double x, double freedom) {
  return gamma_q(freedom / 2, x / 2);
}

double bernstein_p(double deviation, double variance, double bound) {
  if (!(deviation > 0)) return 1;
  const double width = 2 * (variance + bound * deviation / 3);
  if (width == 0) return 0;
  return clamped(2 * std::exp(-deviation * deviation / width));
}

double ks_p(std::int64_t n, double d) {
  const auto size = static_cast<double>(n);
  if (d <= 0.5 / size) return 1;
  if (d >= 1) return 0;
  if (size * d * d > 2.2 && n <= 1'000'000)
    return clamped(2 * one_sided(size, d));
  if (n <= 140) return clamped(1 - marsaglia(n, d));
  return kolmogorov_limit(effective(size, d));
}

double ks_bound(std::int64_t n, double d) {
  return clamped(2 * std::exp(-2 * static_cast<double>(n) * d * d));
}

double ks_two_sample_bound(std::int64_t n, double d) {
  return clamped(2 * std::exp(-static_cast<double>(n) * d * d));
}

double ks_two_sample_p(std::int64_t n, std::int64_t m, double d) {
  const auto a = static_cast<double>(n), b = static_cast<double>(m);
  return kolmogorov_limit(effective(a * b / (a + b), d));
}

double ks_two_sample(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  double most = 0;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double value = std::min(a[i], b[j]);
    while (i < a.size() && a[i] <= value) ++i;
    while (j < b.size() && b[j] <= value) ++j;
    most = std::max(most, std::abs(static_cast<double>(i) / n -
                                   static_cast<double>(j) / m));
  }
  return most;
}

}  // namespace assay
