#include "assay/te/quantize/column_tiles.h"

#include <algorithm>

#include "assay/kernels/block_quant.h"
#include "assay/kernels/movement.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

constexpr std::int64_t kElements = kTileRows * kTileColumns;

void transpose(const Tensor& x, const std::byte* in, std::int64_t stride,
               const ColumnTile& t) {
  const auto& kernels = movement_kernels(x.device);
  const bool half = traits(x.dtype()).bits == 16;
  (half ? kernels.transpose16 : kernels.transpose32)(
      in, stride, t.rows, t.columns, false, t.data, t.rows);
}

void rotate(const Tensor& x, const std::byte* in, std::int64_t stride,
            const ColumnTile& t, std::uint16_t signs, std::uint16_t* out) {
  const auto& kernels = block_quant_kernels(x.device);
  const auto* from = reinterpret_cast<const std::uint16_t*>(in);
  for (std::int64_t r = 0; r < t.rows; r += 16) {
    kernels.hadamard16_columns(from + r * stride, stride, t.columns, signs,
                               out + r * t.columns, t.columns);
  }
}

}  // namespace

void for_column_tiles(const Tensor& x, const TileArea& area,
                      std::optional<std::uint16_t> signs,
                      const std::function<void(const ColumnTile&)>& body) {
  alignas(64) std::byte scratch[kElements * 4];
  alignas(64) std::uint16_t rotated[kElements];
  const std::int64_t stride = matrix_shape(x.shape()).columns;
  const std::int64_t size = traits(x.dtype()).bits / 8;
  const std::int64_t row_end = area.row + area.rows;
  const std::int64_t column_end = area.column + area.columns;
  for (std::int64_t r = area.row; r < row_end; r += kTileRows) {
    for (std::int64_t c = area.column; c < column_end; c += kTileColumns) {
      const ColumnTile tile{r, std::min(kTileRows, row_end - r), c,
                            std::min(kTileColumns, column_end - c), scratch};
      const std::byte* in = x.view.data + (r * stride + c) * size;
      if (signs) {
        rotate(x, in, stride, tile, *signs, rotated);
        transpose(x, reinterpret_cast<const std::byte*>(rotated), tile.columns,
                  tile);
      } else {
        transpose(x, in, stride, tile);
      }
      body(tile);
    }
  }
}

}  // namespace assay::te
