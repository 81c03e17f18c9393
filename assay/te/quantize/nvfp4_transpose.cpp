#include "assay/te/quantize/nvfp4_transpose.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "assay/base/parallel.h"
#include "assay/kernels/cast.h"
#include "assay/numerics/nvfp4_scale.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

// Even and odd rows of the result are the low and high nibbles of the bytes of
// a column pair; rows r and r + 1 of the source share a byte of the result.
constexpr std::int64_t kRows = 64;   // of the source, for one task
constexpr std::int64_t kBytes = 64;  // of a source row, for one tile

void join(const std::uint8_t* column, std::int64_t rows, std::uint8_t* even,
          std::uint8_t* odd) {
  for (std::int64_t i = 0; i < rows / 2; ++i) {
    const unsigned a = column[2 * i], b = column[2 * i + 1];
    even[i] = static_cast<std::uint8_t>((a & 15) | (b & 15) << 4);
    odd[i] = static_cast<std::uint8_t>(a >> 4 | (b & 0xf0));
  }
}

}  // namespace

Tensor nvfp4_transpose_codes(const Tensor& codes) {
  require_dtype("nvfp4_transpose", "codes", codes, {DType::kE2M1});
  const auto [m, k] = matrix_shape(codes.shape());
  require_multiple("nvfp4_transpose", "rows", m, 2);
  require_multiple("nvfp4_transpose", "columns", k, 2);
  Tensor out = Tensor::empty(DType::kE2M1, {k, m}, codes.device);
  const auto& kernels = cast_kernels(codes.device);
  const auto* in = codes.data<std::uint8_t>();
  auto* to = out.mutable_data<std::uint8_t>();
  parallel_for((m + kRows - 1) / kRows, [&, rows = m, pairs = k / 2](auto s) {
    std::uint8_t tile[kBytes * kRows];
    const std::int64_t r = s * kRows, n = std::min(kRows, rows - r);
    for (std::int64_t b = 0; b < pairs; b += kBytes) {
      const std::int64_t width = std::min(kBytes, pairs - b);
      kernels.transpose(in + r * pairs + b, pairs, n, width, tile, n);
      for (std::int64_t i = 0; i < width; ++i) {
        std::uint8_t* even = to + 2 * (b + i) * (rows / 2) + r / 2;
        join(tile + i * n, n, even, even + rows / 2);
      }
    }
  });
  return out;
}

QuantizedData nvfp4_transpose_tiles(const QuantizedData& q) {
  require(q.mode == ScalingMode::kNVFP4, "nvfp4_transpose", "mode",
          std::string(scaling_mode_name(q.mode)), "nvfp4");
  require(q.layout == ScaleLayout::kCompact, "nvfp4_transpose", "layout",
          "padded or swizzled scales", "compact ones");
  const auto [m, k] = matrix_shape(q.data.shape());
  QuantizedData out = q;
  out.columnwise = !q.columnwise;
  out.data = nvfp4_transpose_codes(q.data);
  const std::int64_t down = m / kNvfp4Block, across = k / kNvfp4Block;
  out.scale_inv = Tensor::empty(DType::kE4M3FN, {k, down}, q.data.device);
  const auto* in = q.scale_inv.data<std::uint8_t>();
  auto* to = out.scale_inv.mutable_data<std::uint8_t>();
  for (std::int64_t r = 0; r < across * kNvfp4Block; ++r)
    for (std::int64_t c = 0; c < down; ++c)
      to[r * down + c] = in[c * kNvfp4Block * across + r / kNvfp4Block];
  return out;
}

}  // namespace assay::te
