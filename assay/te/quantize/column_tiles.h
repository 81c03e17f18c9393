// Walks a matrix in tiles and hands them out transposed: how recipes that
// store columns as rows read their input once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "assay/core/tensor.h"

namespace assay::te {

// Part of the transposed matrix: row c of it holds elements [row, row + rows)
// of column `column` + c. Lies at data + c * rows elements.
struct ColumnTile {
  std::int64_t row, rows;
  std::int64_t column, columns;
  std::byte* data;
};

// Rows and columns of a tile at most: 64 x 256 elements of 16 bits stay in the
// first-level cache; 256 rows are the 16 FP4 blocks that a kernel takes at once
// and 128 bytes of their codes.
inline constexpr std::int64_t kTileRows = 256;
inline constexpr std::int64_t kTileColumns = 64;

struct TileArea {  // rows [row, row + rows), columns [column, column + columns)
  std::int64_t row, rows, column, columns;
};

// Calls body for the tiles of an area of the contiguous matrix x with 16-bit or
// 32-bit elements, one after the other; the data may be changed and is gone
// afterwards. With `signs` (bfloat16, rows a multiple of 16) the columns are
// Hadamard-transformed in runs of 16 (kernels/block_quant.h).
void for_column_tiles(const Tensor& x, const TileArea& area,
                      std::optional<std::uint16_t> signs,
                      const std::function<void(const ColumnTile&)>& body);

}  // namespace assay::te
