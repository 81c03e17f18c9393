#include "assay/te/quantize/layout_block128.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/tile.h"

namespace assay::te {
namespace {

// Where block (r, c) of an R x C matrix of blocks stands, as strides.
struct Order {
  std::int64_t row_stride, column_stride;
};

Order order_of(ScalingMode mode, ScaleLayout layout, const Shape& in_memory) {
  const bool transposed =
      layout == ScaleLayout::kGemmReady && mode == ScalingMode::kBlock1D;
  if (transposed) return {1, in_memory[1]};
  return {in_memory[1], 1};
}

}  // namespace

Shape block128_scale_shape(ScalingMode mode, bool columnwise,
                           const Shape& shape, ScaleLayout layout) {
  const auto [m, k] = matrix_shape(shape);
  const std::int64_t outer = columnwise ? k : m;
  const std::int64_t c = ceil_div(columnwise ? m : k, 128);
  const bool flat = mode == ScalingMode::kBlock1D;
  const std::int64_t r = flat ? outer : ceil_div(outer, 128);
  if (layout == ScaleLayout::kCompact) return {r, c};
  require(layout == ScaleLayout::kGemmReady, "with_layout", "layout",
          "swizzled for " + std::string(scaling_mode_name(mode)),
          "compact or GEMM-ready");
  if (flat) return {c, ceil_div(r, 4) * 4};
  return {r, ceil_div(c, 4) * 4};
}

QuantizedData block128_with_layout(const QuantizedData& q, const Shape& shape,
                                   ScaleLayout layout) {
  if (q.layout == layout) return q;
  const auto shape_in = [&](ScaleLayout l) {
    return block128_scale_shape(q.mode, q.columnwise, shape, l);
  };
  const Shape from_shape = shape_in(q.layout), to_shape = shape_in(layout);
  require_shape("with_layout", "scale_inv", q.scale_inv, from_shape);
  const Shape blocks = shape_in(ScaleLayout::kCompact);
  const Order from = order_of(q.mode, q.layout, from_shape);
  const Order to = order_of(q.mode, layout, to_shape);
  Tensor scales = Tensor::zeros(DType::kF32, to_shape, q.scale_inv.device);
  const auto* in = q.scale_inv.data<float>();
  auto* out = scales.mutable_data<float>();
  for (std::int64_t r = 0; r < blocks[0]; ++r)
    for (std::int64_t c = 0; c < blocks[1]; ++c)
      out[r * to.row_stride + c * to.column_stride] =
          in[r * from.row_stride + c * from.column_stride];
  QuantizedData moved = q;
  moved.scale_inv = std::move(scales);
  moved.layout = layout;
  return moved;
}

}  // namespace assay::te
