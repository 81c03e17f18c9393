#include "assay/metrics/stats_sums.h"

#include <algorithm>
#include <cmath>

namespace assay {
namespace {

void count_nonfinite(double v, PartialSide& side) {
  side.nan += std::isnan(v);
  side.pos_inf += std::isinf(v) && v > 0;
  side.neg_inf += std::isinf(v) && v < 0;
}

}  // namespace

void extend(PartialSide& side, double min, double max) {
  side.min = std::min(side.min, min);
  side.max = std::max(side.max, max);
}

void add_sums(std::int64_t chunk, std::int64_t n, ChunkSums& sums,
              StatsPartial& out) {
  for (std::size_t s = 0; s < kSumCount; ++s)
    out.sum[s] += sum_of_lanes(sums.lane[s]);
  extend(out.golden, sums.x_min, sums.x_max);
  extend(out.target, sums.y_min, sums.y_max);
  out.finite += n;
  out.golden_zeros += sums.golden_zeros;
  out.mismatches += sums.mismatches;
  out.zero_sign_flips += sums.zero_sign_flips;
  out.sign_flips += sums.sign_flips;
  out.abs.raise(sums.max_abs, chunk);
  out.rel.raise(sums.max_rel, chunk);
}

void add_nonfinite(double x, double y, std::int64_t index, StatsPartial& out) {
  const auto add_side = [](double v, PartialSide& side) {
    if (!std::isfinite(v)) return count_nonfinite(v, side);
    extend(side, v, v);
    side.unpaired_sum += v;
    side.unpaired_squares += v * v;
  };
  add_side(x, out.golden);
  add_side(y, out.target);
  if (x == y || (std::isnan(x) && std::isnan(y))) return;
  ++out.mismatches;
  ++out.nonfinite_mismatches;
  if (out.first_nonfinite_mismatch < 0) out.first_nonfinite_mismatch = index;
}

}  // namespace assay
