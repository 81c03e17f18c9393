#include "assay/te/quantize/scale.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "assay/kernels/cast.h"
#include "assay/numerics/float_format.h"
#include "assay/te/check.h"

namespace assay::te {

float format_max(DType format) {
  return static_cast<float>(decode_float(format, max_finite_code(format)));
}

float compute_scale(float amax, float fp8_max, const ScaleOptions& options) {
  if (amax < options.epsilon) amax = options.epsilon;
  if (amax == 0 || !std::isfinite(amax)) return 1.0f;
  float scale = fp8_max / amax;
  if (std::isinf(scale)) scale = options.value_for_inf;
  if (options.pow2) {
    const auto bits = std::bit_cast<std::uint32_t>(scale);
    scale = std::bit_cast<float>(bits & 0xff800000u);
  }
  return scale;
}

float block_value_for_inf(DType input) { return format_max(input); }

Scales scales_from_amax(const Tensor& amax, DType format,
                        const ScaleOptions& options) {
  require_dtype("scales_from_amax", "amax", amax, {DType::kF32});
  require_cast_format("scales_from_amax", format);
  const Tensor in = contiguous(amax);
  Scales out{Tensor::empty(DType::kF32, amax.shape(), amax.device),
             Tensor::empty(DType::kF32, amax.shape(), amax.device)};
  auto* scale = out.scale.mutable_data<float>();
  auto* inverse = out.scale_inv.mutable_data<float>();
  const float most = format_max(format);
  for (std::int64_t i = 0; i < in.numel(); ++i) {
    scale[i] = compute_scale(in.data<float>()[i], most, options);
    inverse[i] = scale_inverse(scale[i]);
  }
  return out;
}

void require_cast_format(std::string_view op, DType format) {
  require(cast_format_index(format) >= 0, op, "format",
          std::string(traits(format).name),
          "float8_e4m3fn, float8_e5m2, float8_e4m3fnuz or float8_e5m2fnuz");
}

}  // namespace assay::te
