// Tier 2 figures of a part of a pair, mergeable in order.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "assay/metrics/stats_partial.h"

namespace assay {

// The run of elements with the greatest sum of d^2, the first of equals.
struct WorstRun {
  double squares = 0;
  std::int64_t begin = -1;

  void raise(double v, std::int64_t at) {
    if (v <= squares) return;
    squares = v;
    begin = at;
  }
};

struct DetailPartial {
  std::int64_t finite = 0;
  double ulp_sum = 0, large_rel_sum = 0, large_squares = 0;
  double large_rel_max = 0;
  Peak ulp, excess;
  std::int64_t rel_over_1e3 = 0, rel_over_5e3 = 0, over_bound = 0;
  std::int64_t small_count = 0, small_errors = 0;
  std::array<std::int64_t, 64> rel_histogram{}, ulp_histogram{};
  WorstRun run32, run128;

  void merge(const DetailPartial& later) {
    finite += later.finite;
    ulp_sum += later.ulp_sum;
    large_rel_sum += later.large_rel_sum;
    large_squares += later.large_squares;
    large_rel_max = std::max(large_rel_max, later.large_rel_max);
    ulp.raise(later.ulp);
    excess.raise(later.excess);
    rel_over_1e3 += later.rel_over_1e3;
    rel_over_5e3 += later.rel_over_5e3;
    over_bound += later.over_bound;
    small_count += later.small_count;
    small_errors += later.small_errors;
    for (std::size_t b = 0; b < 64; ++b) {
      rel_histogram[b] += later.rel_histogram[b];
      ulp_histogram[b] += later.ulp_histogram[b];
    }
    run32.raise(later.run32.squares, later.run32.begin);
    run128.raise(later.run128.squares, later.run128.begin);
  }
};

}  // namespace assay
