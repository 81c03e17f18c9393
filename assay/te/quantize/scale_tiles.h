// The tiled order of block scales: 128 x 4 bytes, as the block-scaled GEMMs of
// NVIDIA's libraries take them.
//
// Source: NVTE swizzle.h; cuBLAS, "block scaling factors layout".
#pragma once

#include <cstdint>

#include "assay/base/round_up.h"
#include "assay/core/tensor.h"

namespace assay::te {

inline constexpr std::int64_t kScaleTileRows = 128;
inline constexpr std::int64_t kScaleTileColumns = 4;

// Position in a tiled R x C matrix (R a multiple of 128, C of 4) of row r,
// column c. Tiles are in row-major order, 512 bytes each; inside one, byte
// (r mod 32) * 16 + (r mod 128) div 32 * 4 + c mod 4.
constexpr std::int64_t swizzled_index(std::int64_t r, std::int64_t c,
                                      std::int64_t columns) {
  const std::int64_t tile = r / kScaleTileRows * (columns / kScaleTileColumns) +
                            c / kScaleTileColumns;
  const std::int64_t row = r % kScaleTileRows;
  return tile * kScaleTileRows * kScaleTileColumns + row % 32 * 16 +
         row / 32 * 4 + c % kScaleTileColumns;
}

// R x C scale bytes (one-byte dtypes) padded with zero bytes to multiples of
// 128 x 4 and put in tile order; the padded matrix's shape. Overwrites nothing.
Tensor swizzle_scales(const Tensor& scales);
// The same of a matrix given transposed, C x R, as MXFP8 keeps column-wise
// scales; the shape of the padded C x R matrix.
Tensor swizzle_scales_transposed(const Tensor& scales);

// The inverses, without the padding: `rows` x `columns` is the shape of what
// was swizzled. Throw Error{kUsage} where the sizes do not fit.
Tensor unswizzle_scales(const Tensor& tiled, std::int64_t rows,
                        std::int64_t columns);
Tensor unswizzle_scales_transposed(const Tensor& tiled, std::int64_t rows,
                                   std::int64_t columns);

}  // namespace assay::te
