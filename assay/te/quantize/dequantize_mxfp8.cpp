#include <array>

#include "assay/base/parallel.h"
#include "assay/kernels/cast.h"
#include "assay/numerics/mxfp8_scale.h"
#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"

namespace assay::te {
namespace {

constexpr std::array<float, 256> make_scales() {
  std::array<float, 256> scales{};
  for (int code = 0; code < 256; ++code)
    scales[static_cast<std::size_t>(code)] =
        mx_scale(static_cast<std::uint8_t>(code));
  return scales;
}
constexpr std::array<float, 256> kScales = make_scales();

// Columns decoded at a time: their scales as fp32 stay in the first-level
// cache.
constexpr std::int64_t kChunk = 2048;
constexpr std::int64_t kRows = 32;

void widen(const std::uint8_t* codes, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = kScales[codes[i]];
}

// Rows [r0, r1) and columns [c0, c0 + n) with 32 | r0 and r1 - r0 <= 32.
template <typename Decode>
void decode_area(const QuantizedData& q, std::int64_t columns, std::int64_t r0,
                 std::int64_t r1, std::int64_t c0, std::int64_t n,
                 const Decode& decode) {
  float scales[kChunk];
  const auto* codes = q.scale_inv.data<std::uint8_t>();
  const std::int64_t per_row = (columns + kMxBlock - 1) / kMxBlock;
  if (q.columnwise) widen(codes + r0 / kMxBlock * columns + c0, n, scales);
  for (std::int64_t r = r0; r < r1; ++r) {
    if (!q.columnwise) {
      widen(codes + r * per_row + c0 / kMxBlock, (n + kMxBlock - 1) / kMxBlock,
            scales);
    }
    decode(r * columns + c0, n, scales);
  }
}

}  // namespace

Tensor dequantize_mxfp8(const QuantizedData& q, const Shape& shape, DType out) {
  Tensor result = Tensor::empty(out, shape, q.data.device);
  require_high_precision("dequantize", "out", result);
  const auto [rows, columns] = matrix_shape(shape);
  require_shape("dequantize", "data", q.data, {rows, columns});
  const auto format = static_cast<std::size_t>(cast_format_index(q.format));
  const auto* codes = q.data.data<std::uint8_t>();
  const std::int64_t across = (columns + kChunk - 1) / kChunk;
  const std::int64_t down = (rows + kRows - 1) / kRows;
  with_cast_type(
      cast_kernels(q.data.device), out,
      [&, m = rows, k = columns]<typename T>(const auto& type, T) {
        const auto& fn = type.format[format];
        T* to = result.template mutable_data<T>();
        parallel_for(down * across, [&](std::int64_t i) {
          const std::int64_t r = i / across * kRows, c = i % across * kChunk;
          decode_area(q, k, r, std::min(m, r + kRows), c,
                      std::min(kChunk, k - c),
                      [&](std::int64_t at, std::int64_t n, const float* s) {
                        if (q.columnwise)
                          fn.decode_each(codes + at, n, s, to + at);
                        else
                          fn.decode_blocks(codes + at, n, kMxBlock, s, to + at);
                      });
        });
      });
  return result;
}

}  // namespace assay::te
