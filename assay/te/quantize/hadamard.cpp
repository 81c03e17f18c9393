#include "assay/te/quantize/hadamard.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/kernels/block_quant.h"
#include "assay/te/check.h"
#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/column_tiles.h"

namespace assay::te {
namespace {

constexpr std::int64_t kRun = 16;

MatrixShape checked(const Tensor& x) {
  require_dtype("hadamard_transform", "x", x, {DType::kBF16});
  return matrix_shape(x.shape());
}

// body(first row, rows) for strips of a tile's height, in parallel.
template <typename Body>
void for_strips(std::int64_t rows, const Body& body) {
  parallel_for((rows + kTileRows - 1) / kTileRows, [&](std::int64_t i) {
    body(i * kTileRows, std::min(kTileRows, rows - i * kTileRows));
  });
}

}  // namespace

Tensor hadamard_matrix(std::uint16_t sign_mask) {
  Tensor h = Tensor::empty(DType::kF32, {kRun, kRun});
  float* out = h.mutable_data<float>();
  for (int i = 0; i < kRun; ++i) {
    for (int j = 0; j < kRun; ++j) {
      const int flips =
          std::popcount(static_cast<unsigned>(i & j)) + (sign_mask >> i & 1);
      out[i * kRun + j] = flips % 2 ? -0.25f : 0.25f;
    }
  }
  return h;
}

Tensor hadamard_transform(const Tensor& input, std::uint16_t sign_mask) {
  require_multiple("hadamard_transform", "columns", checked(input).columns,
                   kRun);
  const Tensor x = contiguous(input);
  Tensor out = Tensor::empty(DType::kBF16, x.shape(), x.device);
  const auto& kernels = block_quant_kernels(x.device);
  constexpr std::int64_t kVectors = 2048;
  const std::int64_t vectors = x.numel() / kRun;
  parallel_for((vectors + kVectors - 1) / kVectors, [&](std::int64_t i) {
    const std::int64_t n = std::min(kVectors, vectors - i * kVectors);
    std::uint16_t* to = out.mutable_data<std::uint16_t>() + i * kVectors * kRun;
    std::memcpy(to, x.data<std::uint16_t>() + i * kVectors * kRun,
                static_cast<std::size_t>(n * kRun) * 2);
    kernels.hadamard16(to, n, sign_mask);
  });
  return out;
}

Tensor hadamard_transform_transposed(const Tensor& input,
                                     std::uint16_t sign_mask) {
  const auto [rows, columns] = checked(input);
  require_multiple("hadamard_transform", "rows", rows, kRun);
  const Tensor x = contiguous(input);
  Tensor out = Tensor::empty(DType::kBF16, {columns, rows}, x.device);
  auto* to = out.mutable_data<std::uint16_t>();
  for_strips(rows, [&, m = rows, k = columns](std::int64_t r, std::int64_t n) {
    for_column_tiles(x, {r, n, 0, k}, sign_mask, [&](const ColumnTile& t) {
      const auto* data = reinterpret_cast<const std::uint16_t*>(t.data);
      for (std::int64_t c = 0; c < t.columns; ++c) {
        std::memcpy(to + (t.column + c) * m + t.row, data + c * t.rows,
                    static_cast<std::size_t>(t.rows) * 2);
      }
    });
  });
  return out;
}

float hadamard_column_amax(const Tensor& x, std::uint16_t sign_mask) {
  require_high_precision("hadamard_column_amax", "x", x);
  const auto [rows, columns] = matrix_shape(x.shape());
  std::vector<float> parts(
      static_cast<std::size_t>((rows + kTileRows - 1) / kTileRows));
  for_strips(rows, [&, k = columns](std::int64_t r, std::int64_t n) {
    float amax = 0;
    for_column_tiles(x, {r, n, 0, k}, sign_mask, [&](const ColumnTile& t) {
      amax = std::max(amax,
                      amax_of(x.device, x.dtype(), t.data, t.columns * t.rows));
    });
    parts[static_cast<std::size_t>(r / kTileRows)] = amax;
  });
  float amax = 0;
  for (float part : parts) amax = std::max(amax, part);
  return amax;
}

HadamardAmax hadamard_transform_amax(const Tensor& input,
                                     std::uint16_t sign_mask) {
  require_multiple("hadamard_transform", "rows", checked(input).rows, kRun);
  const Tensor x = contiguous(input);
  return {tensor_amax(x), hadamard_column_amax(x, sign_mask)};
}

}  // namespace assay::te
