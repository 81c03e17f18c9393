#include <algorithm>
#include <utility>

#include "assay/base/parallel.h"
#include "assay/kernels/decode.h"
#include "assay/te/check.h"
#include "assay/te/quantize/fused.h"
#include "assay/te/quantize/rounding_point.h"

namespace assay::te {
namespace {

// x in fp32: its norm is then the unrounded one, of the same values.
Tensor widened(const Tensor& input) {
  if (input.dtype() == DType::kF32) return input;
  const Tensor x = contiguous(input);
  Tensor out = Tensor::empty(DType::kF32, x.shape(), x.device);
  constexpr std::int64_t kBlock = 1 << 15;
  const std::int64_t n = x.numel();
  parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t b) {
    const std::int64_t at = b * kBlock;
    decode_f32(x.dtype(), x.view.data + at * 2, std::min(kBlock, n - at),
               out.mutable_data<float>() + at);
  });
  return out;
}

bool unrounded(const Quantizer& quantizer, const Tensor& x,
               const NormOptions& options) {
  return !takes_rounded_input(quantizer) && x.dtype() != DType::kF32 &&
         options.rounding == NormRounding::kOnce;
}

NormQuantized finish(Quantizer& quantizer, NormForward&& norm, DType dtype) {
  QuantizedTensor z = norm.z.dtype() == dtype
                          ? quantizer.quantize(norm.z)
                          : quantizer.quantize_fused(norm.z, dtype);
  return {std::move(z), std::move(norm.mean), std::move(norm.rsigma)};
}

}  // namespace

NormQuantized layernorm_quantize(Quantizer& quantizer, const Tensor& x,
                                 const Tensor& gamma, const Tensor& beta,
                                 const NormOptions& options) {
  require_high_precision("layernorm_quantize", "x", x);
  const Tensor in = unrounded(quantizer, x, options) ? widened(x) : x;
  return finish(quantizer, layernorm_forward(in, gamma, beta, options),
                x.dtype());
}

NormQuantized rmsnorm_quantize(Quantizer& quantizer, const Tensor& x,
                               const Tensor& gamma,
                               const NormOptions& options) {
  require_high_precision("rmsnorm_quantize", "x", x);
  const Tensor in = unrounded(quantizer, x, options) ? widened(x) : x;
  return finish(quantizer, rmsnorm_forward(in, gamma, options), x.dtype());
}

}  // namespace assay::te
