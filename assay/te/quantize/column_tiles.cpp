#include "assay/te/quantize/column_tiles.h"

#include <algorithm>

#include "assay/kernels/block_quant.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

void transpose(const Tensor& x, std::int64_t stride, const ColumnTile& t) {
  const auto& kernels = block_quant_kernels(x.device);
  const std::int64_t size = traits(x.dtype()).bits / 8;
  TransposeTile tile;
  tile.in = x.view.data + (t.row * stride + t.column) * size;
  tile.in_stride = stride;
  tile.rows = t.rows;
  tile.columns = t.columns;
  tile.out = t.data;
  tile.out_stride = t.rows;
  (size == 2 ? kernels.transpose16 : kernels.transpose32)(tile);
}

}  // namespace

void for_column_tiles(const Tensor& x, std::int64_t row, std::int64_t rows,
                      std::int64_t column, std::int64_t columns,
                      const std::function<void(const ColumnTile&)>& body) {
  alignas(64) std::byte scratch[kTileRows * kTileColumns * 4];
  const std::int64_t stride = matrix_shape(x.shape()).columns;
  for (std::int64_t r = row; r < row + rows; r += kTileRows) {
    for (std::int64_t c = column; c < column + columns; c += kTileColumns) {
      const ColumnTile tile{r, std::min(kTileRows, row + rows - r), c,
                            std::min(kTileColumns, column + columns - c),
                            scratch};
      transpose(x, stride, tile);
      body(tile);
    }
  }
}

}  // namespace assay::te
