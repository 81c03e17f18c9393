// Sums over the rows of a matrix, one per column, with bits that depend on the
// shape alone: fixed blocks of rows in parallel, their fp64 sums added in
// block order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/base/round_up.h"
#include "assay/core/tensor.h"

namespace assay::te {

// At most this many partial sums per column, of a multiple of 16 rows each.
inline constexpr std::int64_t kTotalBlocks = 32;

constexpr std::int64_t rows_per_total(std::int64_t rows) {
  const std::int64_t even = (rows + kTotalBlocks - 1) / kTotalBlocks;
  return std::max<std::int64_t>(16, (even + 15) / 16 * 16);
}

// Adds up width sums per block: body(begin, end, sums) adds those of rows
// [begin, end) to zeros.
template <typename Body>
std::vector<double> column_totals(std::int64_t rows, std::int64_t width,
                                  const Body& body) {
  const std::int64_t step = rows_per_total(rows);
  const std::int64_t blocks = ceil_div(rows, step);
  const auto size = static_cast<std::size_t>(width);
  std::vector<double> partial(static_cast<std::size_t>(blocks) * size);
  parallel_for(blocks, [&](std::int64_t b) {
    body(b * step, std::min(rows, (b + 1) * step),
         partial.data() + static_cast<std::size_t>(b) * size);
  });
  std::vector<double> total(size);
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::size_t j = 0; j < size; ++j)
      total[j] += partial[static_cast<std::size_t>(b) * size + j];
  return total;
}

}  // namespace assay::te
