// Which dump of one tree belongs to which of the other.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/trace/trace.h"

namespace assay {

struct LocationPair {
  std::int32_t golden = -1;  // index into the list, -1 when there is none
  std::int32_t target = -1;
  std::int64_t step = 0;
  std::int64_t rank = 0;
};

// By step and rank where both trees number them, else by position. What has
// no partner is a pair of its own. Sorted by step, then rank.
std::vector<LocationPair> pair_locations(
    const std::vector<TraceLocation>& golden,
    const std::vector<TraceLocation>& target);

}  // namespace assay
