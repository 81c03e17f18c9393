// What the plain chunk kernels share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "assay/kernels/kernels.h"

namespace assay::ref {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline void clear(ChunkSums& out) {
  out = {};
  out.x_min = out.y_min = kInf;
  out.x_max = out.y_max = -kInf;
}

inline bool all_finite(const ChunkSums& out) {
  for (const auto& lanes : out.lane) {
    for (const double v : lanes) {
      if (!std::isfinite(v)) return false;
    }
  }
  return true;
}

inline ChunkState finish_equal(ChunkSums& out) {
  for (int i = 0; i < kLanes; ++i) {
    out.lane[kSumY][i] = out.lane[kSumX][i];
    out.lane[kSumYY][i] = out.lane[kSumXY][i] = out.lane[kSumXX][i];
  }
  out.y_min = out.x_min;
  out.y_max = out.x_max;
  return ChunkState::kEqual;
}

// y = x + d; false when that cancels.
inline bool derive_target(ChunkSums& out) {
  double xx = 0, yy = 0;
  for (int k = 0; k < kLanes; ++k) {
    const double cross = out.lane[kSumXD][k];
    const double product = out.lane[kSumXX][k] + cross;
    out.lane[kSumY][k] = out.lane[kSumX][k] + out.lane[kSumD][k];
    out.lane[kSumXY][k] = product;
    out.lane[kSumYY][k] = product + (cross + out.lane[kSumDD][k]);
    xx += out.lane[kSumXX][k];
    yy += out.lane[kSumYY][k];
  }
  return yy >= 0.25 * xx;
}

// Signs, zeros and mismatches of one pair of numbers.
template <typename F>
void count_pair(F x, F y, ChunkSums& out) {
  out.golden_zeros += x == 0;
  out.mismatches += x != y;
  if (std::signbit(x) == std::signbit(y)) return;
  out.zero_sign_flips += x == 0 && y == 0;
  out.sign_flips += x != 0 && y != 0;
}

inline void extend(double x, double& min, double& max) {
  min = std::min(min, x);
  max = std::max(max, x);
}

}  // namespace assay::ref
