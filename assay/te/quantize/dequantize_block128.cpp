// Decoding of block-128 tensors: float(code) * scale_inv of its block, in fp32.
#include "assay/base/parallel.h"
#include "assay/te/check.h"
#include "assay/te/quantize/dequantize_modes.h"
#include "assay/te/quantize/layout_block128.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tile.h"

namespace assay::te {
namespace {

constexpr std::int64_t kSide = 128;

template <typename T>
void decode_rows(const QuantizedData& q, const CastFormat<T>& format,
                 Tensor& out) {
  const auto [m, k] = matrix_shape(out.shape());
  const Tiling strips{m, k, 16, 4096};
  const auto* codes = q.data.data<std::uint8_t>();
  const auto* scales = q.scale_inv.data<float>();
  const std::int64_t across = q.scale_inv.shape()[1];
  const std::int64_t tall = q.mode == ScalingMode::kBlock2D ? kSide : 1;
  T* values = out.mutable_data<T>();
  parallel_for(strips.count(), [&, k = k](std::int64_t i) {
    const Tile t = strips.at(i);
    for (std::int64_t r = t.row; r < t.row + t.rows; ++r) {
      const std::int64_t at = r * k + t.column;
      format.decode_blocks(codes + at, t.columns, kSide,
                           scales + r / tall * across + t.column / kSide,
                           values + at);
    }
  });
}

// The scales of the columns of one tile.
void tile_scales(const QuantizedData& q, const Tile& t, float* out) {
  const auto* scales = q.scale_inv.data<float>();
  const std::int64_t stride = q.scale_inv.shape()[1];
  const std::int64_t wide = q.mode == ScalingMode::kBlock2D ? kSide : 1;
  for (std::int64_t c = 0; c < t.columns; ++c)
    out[c] = scales[(t.column + c) / wide * stride + t.row / kSide];
}

template <typename T>
void decode_columns(const QuantizedData& q, const CastFormat<T>& format,
                    Tensor& out) {
  const auto [m, k] = matrix_shape(out.shape());
  const Tiling tiling{m, k, kSide, TileCodes::kColumns};
  const auto* codes = q.data.data<std::uint8_t>();
  T* values = out.mutable_data<T>();
  parallel_for(tiling.count(), [&, m = m, k = k](std::int64_t i) {
    TileCodes scratch;
    float scales[TileCodes::kColumns];
    const Tile t = tiling.at(i);
    tile_scales(q, t, scales);
    cast_kernels(out.device)
        .transpose(codes + t.column * m + t.row, m, t.columns, t.rows,
                   scratch.codes, TileCodes::kStride);
    for (std::int64_t r = 0; r < t.rows; ++r)
      format.decode_each(scratch.row(r), t.columns, scales,
                         values + (t.row + r) * k + t.column);
  });
}

}  // namespace

Tensor dequantize_block128(const QuantizedData& q, const Shape& shape,
                           DType out) {
  constexpr const char* kOp = "dequantize";
  require_cast_format(kOp, q.format);
  Tensor values = Tensor::empty(out, shape, q.data.device);
  require_high_precision(kOp, "out", values);
  const auto [m, k] = matrix_shape(shape);
  require_shape(kOp, "data", q.data, q.columnwise ? Shape{k, m} : Shape{m, k});
  require_shape(
      kOp, "scale_inv", q.scale_inv,
      block128_scale_shape(q.mode, q.columnwise, shape, ScaleLayout::kCompact));
  const auto f = static_cast<std::size_t>(cast_format_index(q.format));
  with_cast_type(cast_kernels(q.data.device), out,
                 [&]<typename T>(const CastType<T>& type, T) {
                   if (q.columnwise)
                     decode_columns<T>(q, type.format[f], values);
                   else
                     decode_rows<T>(q, type.format[f], values);
                 });
  return values;
}

}  // namespace assay::te
