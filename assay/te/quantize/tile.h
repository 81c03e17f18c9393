// A matrix cut into fixed tiles, and what a tile needs to leave its columns
// as rows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "assay/base/round_up.h"
#include "assay/kernels/cast.h"

namespace assay::te {

// Rows [row, row + rows) by columns [column, column + columns) of a matrix.
struct Tile {
  std::int64_t row, rows, column, columns;
};

// The tiles of an M x K matrix, row by row of tiles. Empty for M or K = 0.
struct Tiling {
  std::int64_t m, k, height, width;

  std::int64_t across() const { return ceil_div(k, width); }
  std::int64_t count() const { return ceil_div(m, height) * across(); }
  Tile at(std::int64_t i) const {
    const std::int64_t row = i / across() * height;
    const std::int64_t column = i % across() * width;
    return {row, std::min(height, m - row), column,
            std::min(width, k - column)};
  }
};

// Room for the codes of one tile of 128 rows; the stride is an odd number of
// cache lines, so that rows do not share a set of the cache.
struct TileCodes {
  static constexpr std::int64_t kRows = 128, kColumns = 256, kStride = 320;
  alignas(64) std::uint8_t codes[kRows * kStride];

  std::uint8_t* row(std::int64_t r) { return codes + r * kStride; }
};

}  // namespace assay::te
