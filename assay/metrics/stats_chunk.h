// Tier 1 of one chunk of a pair: by a kernel, or element by element where the
// kernel does not answer for it.
#pragma once

#include "assay/metrics/stats_partial.h"
#include "assay/metrics/stats_plan.h"

namespace assay {

// Adds the chunk's figures to `out`.
void add_chunk(const PairPlan& plan, std::int64_t chunk, const ChunkData& data,
               StatsPartial& out);

}  // namespace assay
