#include "assay/te/quantize/check_quantized.h"

#include <string>

#include "assay/base/round_up.h"
#include "assay/te/check.h"
#include "assay/te/quantize/layout_block128.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/scale_tiles.h"

namespace assay::te {
namespace {

constexpr std::int64_t kNvfp4Side = 16, kMxSide = 32;

DType scale_dtype(ScalingMode mode) {
  if (mode == ScalingMode::kMXFP8) return DType::kE8M0;
  if (mode == ScalingMode::kNVFP4) return DType::kE4M3FN;
  return DType::kF32;
}

void check_format(std::string_view op, const QuantizedData& q) {
  switch (q.mode) {
    case ScalingMode::kIdentity:
      return require_high_precision(op, "data", q.data);
    case ScalingMode::kMXFP8:
      require(q.format == DType::kE4M3FN || q.format == DType::kE5M2, op,
              "format", std::string(traits(q.format).name),
              "float8_e4m3fn or float8_e5m2 for mxfp8");
      break;
    case ScalingMode::kNVFP4:
      require(q.format == DType::kE2M1, op, "format",
              std::string(traits(q.format).name), "float4_e2m1fn for nvfp4");
      break;
    default:
      require_cast_format(op, q.format);
  }
  require_dtype(op, "data", q.data, {q.format});
}

void check_data(std::string_view op, const QuantizedData& q,
                const Shape& shape) {
  const auto [m, k] = matrix_shape(shape);
  const Shape& s = q.data.shape();
  const Shape stored = is_data_transposed(q) ? Shape{k, m} : Shape{m, k};
  bool fits = s == stored;
  if (q.mode == ScalingMode::kTensor || q.mode == ScalingMode::kIdentity) {
    const bool outer = is_data_transposed(q) ? !s.empty() && s[0] == k
                                             : matrix_shape(s).columns == k;
    fits = fits || (outer && q.data.numel() == m * k);
  }
  require(fits, op, "data", "shape " + to_string(s), to_string(stored));
  if (q.mode == ScalingMode::kNVFP4)
    require_multiple(op, "data: nvfp4 inner dimension", stored[1], kNvfp4Side);
  require_present(op, "data", q.data);
}

Tensor checked_amax(std::string_view op, const QuantizedData& q) {
  require_dtype(op, "amax", q.amax, {DType::kF32});
  if (q.amax.shape() != Shape{1})
    require_shape(op, "amax", q.amax, {q.data.shape()[0]});
  require_present(op, "amax", q.amax);
  require(q.nvfp4_scale_max == 448.0f || q.nvfp4_scale_max == 256.0f, op,
          "nvfp4_scale_max", std::to_string(q.nvfp4_scale_max), "448 or 256");
  return contiguous(q.amax);
}

}  // namespace

bool is_data_transposed(const QuantizedData& q) {
  return q.columnwise && q.mode != ScalingMode::kMXFP8 &&
         q.mode != ScalingMode::kIdentity;
}

Shape scale_inv_shape(const QuantizedData& q, const Shape& shape) {
  if (q.mode == ScalingMode::kIdentity) return {};
  if (q.mode == ScalingMode::kTensor) return {1};
  if (q.mode == ScalingMode::kBlock1D || q.mode == ScalingMode::kBlock2D)
    return block128_scale_shape(q.mode, q.columnwise, shape, q.layout);
  const auto [m, k] = matrix_shape(shape);
  const bool down = q.mode == ScalingMode::kMXFP8 && q.columnwise;
  Shape s = down                            ? Shape{ceil_div(m, kMxSide), k}
            : q.mode == ScalingMode::kMXFP8 ? Shape{m, ceil_div(k, kMxSide)}
            : q.columnwise                  ? Shape{k, ceil_div(m, kNvfp4Side)}
                                            : Shape{m, ceil_div(k, kNvfp4Side)};
  if (q.layout == ScaleLayout::kCompact) return s;
  return {round_up(s[0], down ? kScaleTileColumns : kScaleTileRows),
          round_up(s[1], down ? kScaleTileRows : kScaleTileColumns)};
}

Tensor checked_scales(std::string_view op, const QuantizedData& q,
                      const Shape& shape) {
  require(checked_numel(shape).has_value(), op, "shape", to_string(shape),
          "one that fits in 63 bits");
  if (q.mode == ScalingMode::kIdentity) return q.scale_inv;
  require_dtype(op, "scale_inv", q.scale_inv, {scale_dtype(q.mode)});
  require_shape(op, "scale_inv", q.scale_inv, scale_inv_shape(q, shape));
  require_present(op, "scale_inv", q.scale_inv);
  return contiguous(q.scale_inv);
}

QuantizedData check_quantized(std::string_view op, const QuantizedData& q,
                              const Shape& shape) {
  QuantizedData out = q;
  check_format(op, q);
  out.scale_inv = checked_scales(op, q, shape);
  check_data(op, q, shape);
  if (q.mode == ScalingMode::kNVFP4) out.amax = checked_amax(op, q);
  const bool codes = q.mode != ScalingMode::kIdentity;
  common_device(op, {&q.data, codes ? &q.scale_inv : nullptr,
                     q.mode == ScalingMode::kNVFP4 ? &q.amax : nullptr});
  out.data = contiguous(q.data);
  return out;
}

}  // namespace assay::te
