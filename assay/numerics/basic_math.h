// Elementary functions made of +, -, *, / and sqrt alone: IEEE 754 rounds
// those alike everywhere, so these give the same bits on every machine, where
// the C libraries' differ from version to version. For random numbers.
#pragma once

namespace assay {

// log(x) of a normal x > 0 by the series of 2 atanh((m - 1) / (m + 1)), m the
// mantissa; a few ulp.
double basic_log(double x);

// log(1 + x), -1 < x <= 1; a few ulp near 0 too.
double basic_log1p(double x);

// exp(x) by its Taylor series about the nearest multiple of ln 2; a few ulp.
// Overflows to infinity, underflows gradually to 0; NaN stays.
double basic_exp(double x);

// tan(pi t), -1/2 < t < 1/2, by Taylor series; a few ulp.
double tan_pi(double t);

// Quantile of the standard normal distribution, relative error about 1e-15.
// Wichura, "Algorithm AS 241", Applied Statistics 37 (1988). `p` in (0, 1).
double normal_quantile(double p);

}  // namespace assay
