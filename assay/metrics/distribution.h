// Tail probabilities that tests of random numbers decide by. fp64, thread-safe,
// results in [0, 1]; values are held to scipy's in tests.
#pragma once

#include <cstdint>
#include <span>

namespace assay {

// Special functions ---------------------------------------------------------

// log Gamma(x), x > 0: Stirling's series (Abramowitz and Stegun 6.1.41) beyond
// 10, the recurrence below. std::lgamma writes a global variable.
double log_gamma(double x);
// Q(a, x), the upper regularised incomplete gamma function, a > 0, x >= 0: the
// series A&S 6.5.29 below a + 1, the continued fraction 6.5.31 above.
double gamma_q(double a, double x);
// I_x(a, b), the regularised incomplete beta function: the continued fraction
// DLMF 8.17.22 by Lentz's method.
double beta_i(double a, double b, double x);

// Distribution functions ----------------------------------------------------

double normal_cdf(double z);
// P(X <= k), X Poisson; 0 for k < 0. Beyond a rate of 1e6, where the series
// grows long, by Wilson and Hilferty's cube root (A&S 26.4.17), to 1e-7.
double poisson_cdf(double k, double rate);
// P(X <= k) and P(X >= k) of n trials with chance p, exact: A&S 26.5.24.
double binomial_lower(std::int64_t k, std::int64_t n, double p);
double binomial_upper(std::int64_t k, std::int64_t n, double p);

// p-values ------------------------------------------------------------------

// Twice the smaller tail, at most 1.
double binomial_p(std::int64_t k, std::int64_t n, double p);
// P(X >= x), chi-square of that many degrees of freedom.
double chi_square_p(double x, double freedom);

// P(|S - E S| >= deviation) at most, S a sum of independent terms of that total
// variance, each within `bound` of its mean: Bernstein's inequality,
// 2 exp(-d^2 / (2 (variance + bound d / 3))). Holds for any size.
double bernstein_p(double deviation, double variance, double bound);

// P(sup |F_n - F| >= d) of n draws of a continuous law: exact to about seven
// digits below 0.02 (twice Birnbaum and Tingey's one-sided law 1951, whose
// error Simard and L'Ecuyer 2011 give), exact by Marsaglia, Tsang and Wang
// 2003 for n <= 140 otherwise, and Kolmogorov's limit with Stephens's 1970
// effective size beyond, where the value is no small one.
double ks_p(std::int64_t n, double d);
// The bound 2 exp(-2 n d^2) of Dvoretzky, Kiefer, Wolfowitz and Massart 1990,
// for any n and any law, with atoms too. What a verdict is made of.
double ks_bound(std::int64_t n, double d);
// The same for two samples of n each: Wei and Dudley 2012 (n >= 458).
double ks_two_sample_bound(std::int64_t n, double d);
// Kolmogorov's limit for two samples, with Stephens's effective size.
double ks_two_sample_p(std::int64_t n, std::int64_t m, double d);

// sup |F_n - F_m| of two sorted samples; equal values step together.
double ks_two_sample(std::span<const double> a, std::span<const double> b);

}  // namespace assay
