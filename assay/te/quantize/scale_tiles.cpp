#include "assay/te/quantize/scale_tiles.h"

#include <algorithm>
#include <string>

#include "assay/base/parallel.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

// Logical row r, column c of an R x C matrix lies at r * row + c * column.
struct Strides {
  std::int64_t row, column;
};

void check_bytes(const Tensor& t) {
  require(traits(t.dtype()).bits == 8, "swizzle_scales", "scales",
          std::string(traits(t.dtype()).name), "a dtype of one byte");
  require_rank("swizzle_scales", "scales", t, 2);
}

// body(r0, r1) for bands of one tile's rows, in parallel.
template <typename Body>
void for_bands(std::int64_t rows, const Body& body) {
  const std::int64_t bands = (rows + kScaleTileRows - 1) / kScaleTileRows;
  parallel_for(bands, [&](std::int64_t i) {
    body(i * kScaleTileRows, std::min(rows, (i + 1) * kScaleTileRows));
  });
}

void to_tiles(const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
              Strides at, std::uint8_t* out) {
  const std::int64_t padded = round_up(columns, kScaleTileColumns);
  for_bands(rows, [&](std::int64_t r0, std::int64_t r1) {
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = r0; r < r1; ++r)
        out[swizzled_index(r, c, padded)] = in[r * at.row + c * at.column];
  });
}

void from_tiles(const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
                Strides at, std::uint8_t* out) {
  const std::int64_t padded = round_up(columns, kScaleTileColumns);
  for_bands(rows, [&](std::int64_t r0, std::int64_t r1) {
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t r = r0; r < r1; ++r)
        out[r * at.row + c * at.column] = in[swizzled_index(r, c, padded)];
  });
}

void check_size(const Tensor& tiled, std::int64_t rows, std::int64_t columns) {
  check_bytes(tiled);
  const std::int64_t expected =
      round_up(rows, kScaleTileRows) * round_up(columns, kScaleTileColumns);
  require(tiled.numel() == expected, "unswizzle_scales", "scales",
          std::to_string(tiled.numel()) + " bytes", std::to_string(expected));
}

}  // namespace

Tensor swizzle_scales(const Tensor& scales) {
  check_bytes(scales);
  const std::int64_t rows = scales.shape()[0], columns = scales.shape()[1];
  Tensor out = Tensor::zeros(
      scales.dtype(),
      {round_up(rows, kScaleTileRows), round_up(columns, kScaleTileColumns)},
      scales.device);
  to_tiles(contiguous(scales).data<std::uint8_t>(), rows, columns, {columns, 1},
           out.mutable_data<std::uint8_t>());
  return out;
}

Tensor swizzle_scales_transposed(const Tensor& scales) {
  check_bytes(scales);
  const std::int64_t rows = scales.shape()[1], columns = scales.shape()[0];
  Tensor out = Tensor::zeros(
      scales.dtype(),
      {round_up(columns, kScaleTileColumns), round_up(rows, kScaleTileRows)},
      scales.device);
  to_tiles(contiguous(scales).data<std::uint8_t>(), rows, columns, {1, rows},
           out.mutable_data<std::uint8_t>());
  return out;
}

Tensor unswizzle_scales(const Tensor& tiled, std::int64_t rows,
                        std::int64_t columns) {
  check_size(tiled, rows, columns);
  Tensor out = Tensor::empty(tiled.dtype(), {rows, columns}, tiled.device);
  from_tiles(tiled.data<std::uint8_t>(), rows, columns, {columns, 1},
             out.mutable_data<std::uint8_t>());
  return out;
}

Tensor unswizzle_scales_transposed(const Tensor& tiled, std::int64_t rows,
                                   std::int64_t columns) {
  check_size(tiled, columns, rows);
  Tensor out = Tensor::empty(tiled.dtype(), {rows, columns}, tiled.device);
  from_tiles(tiled.data<std::uint8_t>(), columns, rows, {1, columns},
             out.mutable_data<std::uint8_t>());
  return out;
}

}  // namespace assay::te
