// Row-wise work in parallel: blocks of whole rows whose size depends on the
// shape alone, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "assay/base/parallel.h"
#include "assay/base/round_up.h"

namespace assay::te {

// Elements of one task: enough to outweigh its start, little enough to spread.
inline constexpr std::int64_t kTaskElements = 1 << 16;

constexpr std::int64_t rows_per_task(std::int64_t columns) {
  return std::max<std::int64_t>(
      1, kTaskElements / std::max<std::int64_t>(1, columns));
}

// Calls body(begin, end) for every block of `step` rows, in no order.
template <typename Body>
void for_row_blocks(std::int64_t rows, std::int64_t step, const Body& body) {
  parallel_for(ceil_div(rows, step), [&](std::int64_t block) {
    const std::int64_t begin = block * step;
    body(begin, std::min(rows, begin + step));
  });
}

}  // namespace assay::te
