// Tier 1 figures of a part of a pair, mergeable in order, and what they come
// to as ErrorStats.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "assay/kernels/kernels.h"
#include "assay/metrics/error_stats.h"

namespace assay {

// One side of a part. A value whose partner is not finite counts here alone.
struct PartialSide {
  std::int64_t nan = 0, pos_inf = 0, neg_inf = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double unpaired_sum = 0, unpaired_squares = 0;
};

// A maximum and the first chunk that has it.
struct Peak {
  double value = 0;
  std::int64_t chunk = -1;

  void raise(double v, std::int64_t at) {
    if (v <= value) return;
    value = v;
    chunk = at;
  }
  void raise(const Peak& later) { raise(later.value, later.chunk); }
};

struct StatsPartial {
  std::array<double, kSumCount> sum{};  // over pairs of finite values
  PartialSide golden, target;
  std::int64_t finite = 0;
  std::int64_t golden_zeros = 0;
  std::int64_t mismatches = 0, zero_sign_flips = 0, sign_flips = 0;
  std::int64_t nonfinite_mismatches = 0;
  std::int64_t first_nonfinite_mismatch = -1;
  Peak abs, rel;
  std::uint64_t max_abs_int = 0;
  bool bitwise_equal = true;

  void merge(const StatsPartial& later);
};

// The figures of all elements but the places and values of the maxima.
// `count` components.
ErrorStats finish_stats(const StatsPartial& total, std::int64_t count);

}  // namespace assay
