"""Writes distributions.tsv: function, arguments, value, by scipy 1.17."""
from pathlib import Path

import numpy as np
from scipy import special, stats

rows = []


def add(name, value, *arguments):
    rows.append("\t".join([name, *(repr(float(a)) for a in arguments),
                           repr(float(value))]))


for x in (0.1, 0.5, 1, 2, 9.5, 10, 123.4, 1e6):
    add("log_gamma", special.gammaln(x), x)
for a, x in ((0.5, 0.1), (0.5, 12), (3, 2), (10, 30), (128, 200),
             (1000, 1010), (1e5, 1.01e5)):
    add("gamma_q", special.gammaincc(a, x), a, x)
for a, b, x in ((1, 1, 0.3), (2, 5, 0.1), (50, 60, 0.3), (500, 501, 0.45),
                (1e5, 9e5, 0.1005)):
    add("beta_i", special.betainc(a, b, x), a, b, x)
for k, rate in ((0, 0.1), (3, 2.5), (40, 12), (5, 40)):
    add("poisson_cdf", stats.poisson.cdf(k, rate), k, rate)
for k, n, p in ((0, 10, 0.1), (3, 10, 0.5), (400, 1000, 0.5),
                (90, 1000, 0.1), (499000, 1000000, 0.5)):
    add("binomial_lower", stats.binom.cdf(k, n, p), k, n, p)
    add("binomial_upper", stats.binom.sf(k - 1, n, p), k, n, p)
for x, freedom in ((3.84, 1), (20, 10), (400, 255), (10, 63)):
    add("chi_square_p", stats.chi2.sf(x, freedom), x, freedom)
for n, d in ((1, 0.7), (5, 0.3), (10, 0.274), (20, 0.2), (50, 0.15),
             (100, 0.1), (140, 0.13), (100, 0.25), (1000, 0.08),
             (10000, 0.03)):
    add("ks_p", stats.kstwo.sf(d, n), n, d)
for t in (-5.3, -1, 0, 0.3, 3.0902, 6):
    add("normal_cdf", stats.norm.cdf(t), t)
Path(__file__).with_name("distributions.tsv").write_text(
    "\n".join(rows) + "\n")
print(len(rows), np.__version__)
