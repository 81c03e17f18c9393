#include "assay/te/quantize/round_input.h"

#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/kernels/cast.h"
#include "assay/te/check.h"

namespace assay::te {

Tensor round_input(const Tensor& input, DType dtype) {
  require_dtype("round_input", "x", input, {DType::kF32});
  if (dtype == DType::kF32) return input;
  const Tensor x = contiguous(input);
  Tensor out = Tensor::empty(dtype, x.shape(), x.device);
  require_high_precision("round_input", "dtype", out);
  constexpr std::int64_t kBlock = 1 << 15;
  const std::int64_t n = x.numel();
  const CastKernels& kernels = cast_kernels(x.device);
  const auto round = dtype == DType::kBF16 ? kernels.to_bf16 : kernels.to_f16;
  auto* codes = out.mutable_data<std::uint16_t>();
  parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t b) {
    const std::int64_t i = b * kBlock;
    round(x.data<float>() + i, std::min(kBlock, n - i), codes + i);
  });
  return out;
}

}  // namespace assay::te
