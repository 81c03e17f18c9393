// Tier 1 of a chunk that its own kernel does not answer for: in fp64, with the
// pairs that are not finite taken out.
#pragma once

#include "assay/metrics/stats_partial.h"
#include "assay/metrics/stats_plan.h"

namespace assay {

// Adds the first n elements of the chunk, n a multiple of kStep. False, and
// `out` as it was, where fp64 sums overflow too, and for kInt64.
bool add_masked(Arithmetic arithmetic, std::int64_t chunk,
                const ChunkData& data, std::int64_t n, StatsPartial& out);

// The first n numbers of both sides as fp64, zeros instead of pairs that are
// not finite. Valid until the next call on the same thread. Not for kInt64.
struct MaskedNumbers {
  const double *x, *y;
  std::int64_t taken_out;
};
MaskedNumbers masked_numbers(Arithmetic arithmetic, const ChunkData& data,
                             std::int64_t n);

}  // namespace assay
