// ErrorStats and DetailStats by the letter of the header: one element after
// another in long double, nothing shared with the code under test but the
// scalar specification of the dtypes.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/metrics/error_stats.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"
#include "assay/numerics/ulp.h"

namespace assay::test {

struct Element {
  double x, y;
};

// What is compared: contiguous views, the golden rounded where it is wider.
inline std::vector<Element> elements(const TensorView& golden,
                                     const TensorView& target) {
  std::vector<Element> out;
  const bool round =
      !is_exact(golden.dtype) && !is_exact(target.dtype) &&
      traits(golden.dtype).mantissa_bits > traits(target.dtype).mantissa_bits;
  const std::int64_t n = golden.numel() * (is_complex(golden.dtype) ? 2 : 1);
  for (std::int64_t i = 0; i < n; ++i) {
    double x = load_as_double(golden.dtype, golden.data, i);
    const double y = load_as_double(target.dtype, target.data, i);
    const double r = round_to(target.dtype, x, Overflow::kSpecial);
    if (round && std::isfinite(r)) x = r;
    out.push_back({x, y});
  }
  return out;
}

inline bool finite(const Element& e) {
  return std::isfinite(e.x) && std::isfinite(e.y);
}

inline void naive_side(const std::vector<Element>& all, double Element::*side,
                       SideStats& out) {
  long double sum = 0, squares = 0;
  std::int64_t n = 0;
  for (const Element& e : all) {
    const double v = e.*side;
    out.nan += std::isnan(v);
    out.pos_inf += std::isinf(v) && v > 0;
    out.neg_inf += std::isinf(v) && v < 0;
    if (!std::isfinite(v)) continue;
    out.min = n ? std::min(out.min, v) : v;
    out.max = n ? std::max(out.max, v) : v;
    ++n;
    sum += v;
    squares += static_cast<long double>(v) * v;
  }
  if (n) out.mean = static_cast<double>(sum / n);
  out.l2 = static_cast<double>(std::sqrt(squares));
}

inline void naive_counts(const std::vector<Element>& all, ErrorStats& out) {
  std::int64_t i = -1;
  for (const Element& e : all) {
    ++i;
    const bool alike = e.x == e.y || (std::isnan(e.x) && std::isnan(e.y));
    out.mismatches += !alike;
    out.finite += finite(e);
    if (!finite(e) && !alike && out.nonfinite_mismatches++ == 0)
      out.first_nonfinite_mismatch = i;
    if (!finite(e) || std::signbit(e.x) == std::signbit(e.y)) continue;
    out.zero_sign_flips += e.x == 0 && e.y == 0;
    out.sign_flips += e.x != 0 && e.y != 0;
  }
}

inline void naive_maxima(const std::vector<Element>& all, ErrorStats& out) {
  std::int64_t i = -1;
  for (const Element& e : all) {
    ++i;
    const double a = std::fabs(e.y - e.x);
    if (!finite(e) || a == 0) continue;
    if (a > out.max_abs) {
      out.max_abs = a;
      out.max_abs_index = i;
    }
    const double r = a / std::fabs(e.x);
    if (r > out.max_rel) {
      out.max_rel = r;
      out.max_rel_index = i;
    }
  }
}

inline void naive_sums(const std::vector<Element>& all, ErrorStats& out) {
  long double d1 = 0, d2 = 0, abs = 0, rel = 0, xx = 0, yy = 0, xy = 0;
  std::int64_t divisors = 0;
  for (const Element& e : all) {
    if (!finite(e)) continue;
    const long double x = e.x, y = e.y, d = y - x;
    d1 += d;
    d2 += d * d;
    abs += std::fabs(d);
    xx += x * x;
    yy += y * y;
    xy += x * y;
    if (x == 0) continue;
    ++divisors;
    rel += std::fabs(d / x);
  }
  const auto n = static_cast<long double>(out.finite);
  out.mean_abs = static_cast<double>(abs / n);
  if (divisors) out.mean_rel = static_cast<double>(rel / divisors);
  out.rmse = static_cast<double>(std::sqrt(d2 / n));
  out.bias = static_cast<double>(d1 / n);
  out.norm_l2 = d2 == 0 ? 0 : static_cast<double>(std::sqrt(d2 / xx));
  out.alpha = xx == 0 ? 1 : static_cast<double>(xy / xx);
  out.cosine = xx == 0 || yy == 0
                   ? (xx == yy ? 1.0 : 0.0)
                   : static_cast<double>(xy / std::sqrt(xx * yy));
}

inline ErrorStats naive_stats(const TensorView& golden,
                              const TensorView& target) {
  const std::vector<Element> all = elements(golden, target);
  ErrorStats out;
  out.count = static_cast<std::int64_t>(all.size());
  naive_side(all, &Element::x, out.golden);
  naive_side(all, &Element::y, out.target);
  naive_counts(all, out);
  naive_maxima(all, out);
  if (out.finite) naive_sums(all, out);
  return out;
}

// Bucket of the smallest power that is not below v: (2^(b-1), 2^b].
inline std::size_t naive_ulp_bucket(double v) {
  for (int b = 0; b < 63; ++b) {
    if (v <= std::ldexp(1.0, b)) return static_cast<std::size_t>(b);
  }
  return 63;
}
inline std::size_t naive_rel_bucket(const Element& e) {
  const long double a = std::fabs(static_cast<long double>(e.y) - e.x);
  for (int b = 63; b > 0; --b) {
    if (a >= std::ldexp(std::fabs(static_cast<long double>(e.x)), b - 64))
      return static_cast<std::size_t>(b);
  }
  return 0;
}

inline void naive_detail_of(const Element& e, std::int64_t i, DType judged,
                            const DetailRequest& request, DetailStats& out) {
  const double a = std::fabs(e.y - e.x), x = std::fabs(e.x);
  const double spacing = ulp(judged, e.x);
  const double bound = request.bound.atol + request.bound.rtol * x +
                       request.bound.ulps * spacing;
  out.ulp_mean += a / spacing;
  if (a / spacing > out.ulp_max) {
    out.ulp_max = a / spacing;
    out.ulp_max_index = i;
  }
  out.over_bound += a > bound;
  if (a != 0) {
    ++out.rel_histogram[naive_rel_bucket(e)];
    ++out.ulp_histogram[naive_ulp_bucket(a / spacing)];
    if (a / bound > out.worst_excess) {
      out.worst_excess = a / bound;
      out.worst_excess_index = i;
    }
  }
  if (request.small.threshold == 0) return;
  if (x < request.small.threshold) {
    ++out.small_count;
    out.small_errors += a > request.small.bound;
    return;
  }
  out.large_max_rel = std::max(out.large_max_rel, a / std::max(x, 1e-7));
  out.large_mean_rel += a / std::max(x, 1e-7);
  out.large_rmse += a * a;
}

inline WorstBlock naive_block(const std::vector<Element>& all,
                              std::size_t length) {
  WorstBlock worst;
  double most = 0;
  for (std::size_t begin = 0; begin < all.size(); begin += length) {
    double dd = 0, xx = 0, n = 0;
    for (std::size_t i = begin; i < std::min(begin + length, all.size()); ++i) {
      if (!finite(all[i])) continue;
      dd += (all[i].y - all[i].x) * (all[i].y - all[i].x);
      xx += all[i].x * all[i].x;
      ++n;
    }
    if (dd <= most) continue;
    most = dd;
    worst = {static_cast<std::int64_t>(begin), std::sqrt(dd / n),
             std::sqrt(xx / n)};
  }
  return worst;
}

inline DetailStats naive_detail(const TensorView& golden,
                                const TensorView& target, DType judged,
                                const DetailRequest& request) {
  const std::vector<Element> all = elements(golden, target);
  DetailStats out;
  double n = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!finite(all[i])) continue;
    ++n;
    naive_detail_of(all[i], static_cast<std::int64_t>(i), judged, request, out);
  }
  if (n > 0) out.ulp_mean /= n;
  const double large = n - static_cast<double>(out.small_count);
  if (large > 0) {
    out.large_mean_rel /= large;
    out.large_rmse = std::sqrt(out.large_rmse / large);
  }
  out.block32 = naive_block(all, 32);
  out.block128 = naive_block(all, 128);
  return out;
}

}  // namespace assay::test
