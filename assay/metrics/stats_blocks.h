// Parallel reduction over fixed blocks of chunks, merged in block order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "assay/base/parallel.h"

namespace assay {

inline constexpr std::int64_t kChunksPerBlock = 8;

// The merge of part(begin, end) over the blocks [begin, end) of `chunks`
// chunks. What a part is never depends on the number of threads.
template <typename Partial, typename Part>
Partial reduce_blocks(std::int64_t chunks, Part part) {
  const std::int64_t blocks = (chunks + kChunksPerBlock - 1) / kChunksPerBlock;
  if (blocks <= 1) return part(0, chunks);
  std::vector<Partial> parts(static_cast<std::size_t>(blocks));
  parallel_for(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * kChunksPerBlock;
    parts[static_cast<std::size_t>(block)] =
        part(begin, std::min(begin + kChunksPerBlock, chunks));
  });
  for (std::size_t i = 1; i < parts.size(); ++i) parts[0].merge(parts[i]);
  return std::move(parts[0]);
}

}  // namespace assay
