#include "assay/metrics/stats_partial.h"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

void merge_side(PartialSide& into, const PartialSide& later) {
  into.nan += later.nan;
  into.pos_inf += later.pos_inf;
  into.neg_inf += later.neg_inf;
  into.min = std::min(into.min, later.min);
  into.max = std::max(into.max, later.max);
  into.unpaired_sum += later.unpaired_sum;
  into.unpaired_squares += later.unpaired_squares;
}

SideStats finish_side(const PartialSide& side, std::int64_t count, double sum,
                      double squares) {
  SideStats out{side.nan, side.pos_inf, side.neg_inf};
  const std::int64_t finite = count - side.nan - side.pos_inf - side.neg_inf;
  if (finite == 0) return out;
  out.min = side.min + 0.0;  // -0 depends on the order
  out.max = side.max + 0.0;
  out.mean = (sum + side.unpaired_sum) / static_cast<double>(finite);
  out.l2 = std::sqrt(squares + side.unpaired_squares);
  return out;
}

// With d = y - x, a = <x,d>/<x,x>, b = <d,d>/<x,x>: y is (1 + a) x plus
// something orthogonal whose share of |x|^2 is b - a^2. Near 1 this keeps the
// digits that <x,y> / (|x| |y|) would lose.
double cosine_of(const StatsPartial& p) {
  const double xx = p.sum[kSumXX], yy = p.sum[kSumYY], dd = p.sum[kSumDD];
  if (xx == 0 || yy == 0) return xx == yy ? 1 : 0;
  if (dd > 0.01 * xx)
    return std::clamp(p.sum[kSumXY] / (std::sqrt(xx) * std::sqrt(yy)), -1.0,
                      1.0);
  const double a = p.sum[kSumXD] / xx, b = dd / xx;
  const double sine2 = (b - a * a) / (1 + 2 * a + b);
  return std::sqrt(1 - std::clamp(sine2, 0.0, 1.0));
}

double alpha_of(const StatsPartial& p) {
  const double xx = p.sum[kSumXX];
  if (xx == 0) return 1;
  if (p.sum[kSumDD] <= 0.01 * xx) return 1 + p.sum[kSumXD] / xx;
  return p.sum[kSumXY] / xx;
}

void finish_whole(const StatsPartial& p, ErrorStats& out) {
  const double dd = p.sum[kSumDD], xx = p.sum[kSumXX];
  const auto finite = static_cast<double>(p.finite);
  const std::int64_t divisors = p.finite - p.golden_zeros;
  out.mean_abs = p.sum[kSumAbsD] / finite;
  if (divisors > 0)
    out.mean_rel = p.sum[kSumRel] / static_cast<double>(divisors);
  out.rmse = std::sqrt(dd / finite);
  out.norm_l2 = dd == 0 ? 0 : xx == 0 ? kInf : std::sqrt(dd) / std::sqrt(xx);
  out.sqnr_db = -20 * std::log10(out.norm_l2);
  out.cosine = cosine_of(p);
  out.bias = p.sum[kSumD] / finite;
  out.alpha = alpha_of(p);
}

}  // namespace

void StatsPartial::merge(const StatsPartial& later) {
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += later.sum[i];
  merge_side(golden, later.golden);
  merge_side(target, later.target);
  finite += later.finite;
  golden_zeros += later.golden_zeros;
  mismatches += later.mismatches;
  zero_sign_flips += later.zero_sign_flips;
  sign_flips += later.sign_flips;
  nonfinite_mismatches += later.nonfinite_mismatches;
  if (first_nonfinite_mismatch < 0)
    first_nonfinite_mismatch = later.first_nonfinite_mismatch;
  abs.raise(later.abs);
  rel.raise(later.rel);
  max_abs_int = std::max(max_abs_int, later.max_abs_int);
  bitwise_equal = bitwise_equal && later.bitwise_equal;
}

ErrorStats finish_stats(const StatsPartial& total, std::int64_t count) {
  ErrorStats out;
  out.count = count;
  out.finite = total.finite;
  out.bitwise_equal = total.bitwise_equal;
  out.golden =
      finish_side(total.golden, count, total.sum[kSumX], total.sum[kSumXX]);
  out.target =
      finish_side(total.target, count, total.sum[kSumY], total.sum[kSumYY]);
  out.mismatches = total.mismatches;
  out.nonfinite_mismatches = total.nonfinite_mismatches;
  out.first_nonfinite_mismatch = total.first_nonfinite_mismatch;
  out.zero_sign_flips = total.zero_sign_flips;
  out.sign_flips = total.sign_flips;
  if (total.finite > 0) finish_whole(total, out);
  return out;
}

}  // namespace assay
