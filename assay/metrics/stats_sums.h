// Small steps that every way of adding a chunk to a StatsPartial shares.
#pragma once

#include <cstdint>

#include "assay/kernels/kernels.h"
#include "assay/metrics/stats_partial.h"

namespace assay {

// Halves, then quarters, ...: a fixed order that vectorises by itself.
// Overwrites the lanes.
inline double sum_of_lanes(double (&lane)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) lane[k] += lane[k + half];
  }
  return lane[0];
}

// Widens a side's range.
void extend(PartialSide& side, double min, double max);

// Adds a kernel's figures of n finite pairs.
void add_sums(std::int64_t chunk, std::int64_t n, ChunkSums& sums,
              StatsPartial& out);

// Adds a pair of which one or both are not finite.
void add_nonfinite(double x, double y, std::int64_t index, StatsPartial& out);

}  // namespace assay
