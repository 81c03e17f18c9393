// Cuts the operators of a comparison into jobs that keep memory bounded.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/engine.h"

namespace assay {

// Consecutive operators [first, end) of Matching::ops.
struct Job {
  std::uint32_t first = 0, end = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;  // of both sides
  bool large = false;      // one operator, its tensors parallel inside
};

// Small operators share a job; one with a tensor pair of at least
// `large_bytes` has its own. Jobs cover every operator, in order.
std::vector<Job> make_jobs(const TracePair& pair, std::int64_t large_bytes);

// Both sides' bytes of a tensor pair that will be loaded, else 0.
std::int64_t pair_bytes(const TracePair& pair, const RecordPair& records);

}  // namespace assay
