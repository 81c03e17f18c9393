// What one tile of a head excludes, adds to its logits and drops.
#pragma once

#include <cstdint>

#include "assay/kernels/attention.h"
#include "assay/kernels/attention_tiles.h"

namespace assay::te {

// Keys [begin, end) x queries [first, last) of one tile with `columns`
// columns; keys past the head's and columns past its queries are padding.
struct TileRange {
  std::int64_t first, last;  // queries
  std::int64_t begin, end;   // keys
  std::int64_t columns;
};

// Blocks of 64 keys that any query in [first, last) may attend to.
struct BlockRange {
  std::int64_t begin = 0, end = 0;
};
BlockRange key_blocks_of(const AttentionHead& head, std::int64_t first,
                         std::int64_t last);
// Blocks of `columns` queries that may attend to a key in [begin, end).
BlockRange query_blocks_of(const AttentionHead& head, std::int64_t begin,
                           std::int64_t end, std::int64_t columns);

struct TileMasks {
  alignas(64) std::uint64_t keep_words[kKeyBlock];
  alignas(64) std::uint64_t dropped_words[kKeyBlock];
  alignas(64) float added_values[kKeyBlock * kQueryBlock];
  // Null where the tile needs none of it.
  const std::uint64_t* keep;
  const std::uint64_t* dropped;
  const float* added;

  // Only the columns of `queries`, one bit each, take part: backward leaves
  // out queries without a gradient, and padding where k or v hold a NaN.
  void fill(const AttentionHead& head, const TileRange& range,
            std::uint64_t queries = ~std::uint64_t{0});

 private:
  void fill_keep(const AttentionHead& head, const TileRange& range,
                 std::uint64_t queries);
  void fill_added(const AttentionHead& head, const TileRange& range);
  void fill_dropped(const AttentionHead& head, const TileRange& range);
};

}  // namespace assay::te
