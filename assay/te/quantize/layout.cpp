#include "assay/te/quantize/layout.h"

#include <cstring>
#include <string>

#include "assay/te/check.h"
#include "assay/te/quantize/check_quantized.h"
#include "assay/te/quantize/layout_block128.h"
#include "assay/te/quantize/scale_tiles.h"

namespace assay::te {
namespace {

bool has_tiles(ScalingMode mode) {
  return mode == ScalingMode::kMXFP8 || mode == ScalingMode::kNVFP4;
}

// MXFP8 keeps column-wise scales as blocks x columns.
bool is_transposed(const QuantizedData& q) {
  return q.mode == ScalingMode::kMXFP8 && q.columnwise;
}

MatrixShape padded_shape(const QuantizedData& q, MatrixShape s) {
  if (is_transposed(q)) {
    return {round_up(s.rows, kScaleTileColumns),
            round_up(s.columns, kScaleTileRows)};
  }
  return {round_up(s.rows, kScaleTileRows),
          round_up(s.columns, kScaleTileColumns)};
}

// The upper left `rows` x `columns` of both; the rest of `out` stays.
void copy_corner(const Tensor& in, std::int64_t rows, std::int64_t columns,
                 Tensor& out) {
  const std::int64_t from = in.shape()[1], to = out.shape()[1];
  if (columns == 0) return;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(out.mutable_data<std::uint8_t>() + r * to,
                in.data<std::uint8_t>() + r * from,
                static_cast<std::size_t>(columns));
  }
}

Tensor to_compact(const QuantizedData& q, MatrixShape s) {
  switch (q.layout) {
    case ScaleLayout::kCompact:
      return q.scale_inv;
    case ScaleLayout::kGemmReady: {
      Tensor out = Tensor::empty(q.scale_inv.dtype(), {s.rows, s.columns},
                                 q.scale_inv.device);
      copy_corner(q.scale_inv, s.rows, s.columns, out);
      return out;
    }
    case ScaleLayout::kSwizzled:
      break;
  }
  return is_transposed(q)
             ? unswizzle_scales_transposed(q.scale_inv, s.rows, s.columns)
             : unswizzle_scales(q.scale_inv, s.rows, s.columns);
}

Tensor from_compact(const QuantizedData& q, const Tensor& scales,
                    ScaleLayout layout) {
  const MatrixShape s{scales.shape()[0], scales.shape()[1]};
  switch (layout) {
    case ScaleLayout::kCompact:
      return scales;
    case ScaleLayout::kGemmReady: {
      const MatrixShape p = padded_shape(q, s);
      Tensor out =
          Tensor::zeros(scales.dtype(), {p.rows, p.columns}, scales.device);
      copy_corner(scales, s.rows, s.columns, out);
      return out;
    }
    case ScaleLayout::kSwizzled:
      break;
  }
  return is_transposed(q) ? swizzle_scales_transposed(scales)
                          : swizzle_scales(scales);
}

}  // namespace

QuantizedData with_layout(const QuantizedData& q, const Shape& shape,
                          ScaleLayout layout) {
  if (q.layout == layout) return q;
  const bool blocks =
      q.mode == ScalingMode::kBlock1D || q.mode == ScalingMode::kBlock2D;
  QuantizedData out = q;
  out.layout = layout;
  if (!has_tiles(q.mode) && !blocks) {
    require(layout != ScaleLayout::kSwizzled, "with_layout", "layout",
            "swizzled scales of mode " + std::string(scaling_mode_name(q.mode)),
            "mxfp8 or nvfp4 for this layout");
    return out;
  }
  QuantizedData given = q;
  given.scale_inv = checked_scales("with_layout", q, shape);
  if (blocks) return block128_with_layout(given, shape, layout);
  QuantizedData unpadded = q;
  unpadded.layout = ScaleLayout::kCompact;
  const Shape compact = scale_inv_shape(unpadded, shape);
  out.scale_inv =
      from_compact(given, to_compact(given, {compact[0], compact[1]}), layout);
  return out;
}

}  // namespace assay::te
