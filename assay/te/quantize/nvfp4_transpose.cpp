#include "assay/te/quantize/nvfp4_transpose.h"

#include <string>

#include "assay/numerics/nvfp4_scale.h"
#include "assay/te/check.h"
#include "assay/te/ops/transpose.h"

namespace assay::te {

QuantizedData nvfp4_transpose_tiles(const QuantizedData& q) {
  require(q.mode == ScalingMode::kNVFP4, "nvfp4_transpose", "mode",
          std::string(scaling_mode_name(q.mode)), "nvfp4");
  require(q.layout == ScaleLayout::kCompact, "nvfp4_transpose", "layout",
          "padded or swizzled scales", "compact ones");
  require_dtype("nvfp4_transpose", "data", q.data, {DType::kE2M1});
  const auto [m, k] = matrix_shape(q.data.shape());
  require_shape("nvfp4_transpose", "scale_inv", q.scale_inv,
                {m, k / kNvfp4Block});
  QuantizedData out = q;
  out.columnwise = !q.columnwise;
  out.data = transpose(q.data);
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
