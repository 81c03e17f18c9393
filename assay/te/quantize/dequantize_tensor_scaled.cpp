// Decoding of tensors with one scale: float(code) * scale_inv in fp32.
#include "assay/base/parallel.h"
#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tile.h"

namespace assay::te {
namespace {

constexpr std::int64_t kBlock = std::int64_t{1} << 16;

template <typename T>
void decode_flat(const QuantizedData& q, const CastFormat<T>& format,
                 Tensor& out) {
  const std::int64_t n = out.numel();
  const auto* codes = q.data.data<std::uint8_t>();
  const float scale = *q.scale_inv.data<float>();
  T* values = out.mutable_data<T>();
  parallel_for(ceil_div(n, kBlock), [&](std::int64_t b) {
    const std::int64_t i = b * kBlock;
    format.decode(codes + i, std::min(kBlock, n - i), scale, values + i);
  });
}

template <typename T>
void decode_transposed(const QuantizedData& q, const CastFormat<T>& format,
                       Tensor& out) {
  const auto [m, k] = matrix_shape(out.shape());
  const Tiling tiling{m, k, TileCodes::kRows, TileCodes::kColumns};
  const auto* codes = q.data.data<std::uint8_t>();
  const float scale = *q.scale_inv.data<float>();
  T* values = out.mutable_data<T>();
  parallel_for(tiling.count(), [&, m = m, k = k](std::int64_t i) {
    TileCodes scratch;
    const Tile tile = tiling.at(i);
    cast_kernels(out.device)
        .transpose(codes + tile.column * m + tile.row, m, tile.columns,
                   tile.rows, scratch.codes, TileCodes::kStride);
    for (std::int64_t r = 0; r < tile.rows; ++r)
      format.decode(scratch.row(r), tile.columns, scale,
                    values + (tile.row + r) * k + tile.column);
  });
}

}  // namespace

Tensor dequantize_tensor_scaled(const QuantizedData& q, const Shape& shape,
                                DType out) {
  require_cast_format("dequantize", q.format);
  Tensor values = Tensor::empty(out, shape, q.data.device);
  require_high_precision("dequantize", "out", values);
  require_present("dequantize", "data", q.data);
  require(q.data.numel() == values.numel(), "dequantize", "data",
          "shape " + to_string(q.data.shape()),
          "the elements of " + to_string(shape));
  require_shape("dequantize", "scale_inv", q.scale_inv, {1});
  const auto f = static_cast<std::size_t>(cast_format_index(q.format));
  with_cast_type(cast_kernels(q.data.device), out,
                 [&]<typename T>(const CastType<T>& type, T) {
                   if (q.columnwise)
                     decode_transposed<T>(q, type.format[f], values);
                   else
                     decode_flat<T>(q, type.format[f], values);
                 });
  return values;
}

}  // namespace assay::te
