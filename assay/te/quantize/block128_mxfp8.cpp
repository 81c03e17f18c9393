#include "assay/te/quantize/block128_mxfp8.h"

#include <bit>
#include <cmath>
#include <string>

#include "assay/numerics/mxfp8_scale.h"
#include "assay/te/check.h"
#include "assay/te/quantize/layout.h"
#include "assay/te/quantize/layout_block128.h"

namespace assay::te {
namespace {

constexpr const char* kOp = "block128_as_mxfp8";

std::uint8_t exponent_of(float scale) {
  const std::uint8_t code =
      encode_e8m0(static_cast<double>(scale), ScaleRounding::kDown);
  require(code != 0xff && mx_scale(code) == scale, kOp, "scale_inv",
          std::to_string(scale), "powers of two");
  return code;
}

}  // namespace

QuantizedData block128_as_mxfp8(const QuantizedData& q, const Shape& shape) {
  const bool tiles = q.mode == ScalingMode::kBlock2D;
  require(tiles || q.mode == ScalingMode::kBlock1D, kOp, "mode",
          std::string(scaling_mode_name(q.mode)), "block 1x128 or 128x128");
  require_present(kOp, "data", q.data);
  const QuantizedData compact = with_layout(q, shape, ScaleLayout::kCompact);
  require_dtype(kOp, "scale_inv", compact.scale_inv, {DType::kF32});
  require_shape(
      kOp, "scale_inv", compact.scale_inv,
      block128_scale_shape(q.mode, q.columnwise, shape, ScaleLayout::kCompact));
  const auto [rows, columns] = matrix_shape(q.data.shape());
  require_multiple(kOp, "columns", columns, kMxBlock);
  const std::int64_t blocks = columns / kMxBlock;
  const std::int64_t across = (blocks + 3) / 4;
  Tensor codes = Tensor::empty(DType::kE8M0, {rows, blocks}, q.data.device);
  const float* scales = compact.scale_inv.data<float>();
  auto* out = codes.mutable_data<std::uint8_t>();
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = scales + (tiles ? r / 128 : r) * across;
    for (std::int64_t b = 0; b < blocks; ++b)
      out[r * blocks + b] = exponent_of(row[b / 4]);
  }
  QuantizedData result;
  result.mode = ScalingMode::kMXFP8;
  result.format = q.format;
  result.data = q.data;
  result.scale_inv = codes;
  return with_layout(result, {rows, columns}, ScaleLayout::kSwizzled);
}

}  // namespace assay::te
