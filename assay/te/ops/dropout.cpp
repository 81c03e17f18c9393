#include "assay/te/ops/dropout.h"

#include "assay/te/check.h"
#include "assay/te/ops/dropout_runs.h"

namespace assay::te {

DropoutForward dropout_forward(const Tensor& x, float p,
                               const DropoutState& state) {
  constexpr std::string_view kOp = "dropout_forward";
  require_high_precision(kOp, "x", x);
  require_probability(kOp, "p", p);
  const DropoutKernels& kernels = dropout_kernels(x.device);
  const Tensor in = contiguous(x);
  const std::int64_t n = x.numel();
  DropoutForward result{
      Tensor::empty(x.dtype(), x.shape(), x.device),
      Tensor::empty(DType::kU8, {dropout_mask_bytes(n)}, x.device)};
  const DropoutDraw draw = dropout_draw(p, state);
  const std::int64_t size = traits(x.dtype()).bits / 8;
  std::byte* y = result.y.mutable_data();
  auto* mask = result.mask.mutable_data<std::uint8_t>();
  for_element_runs(n, [&](std::int64_t begin, std::int64_t count) {
    std::uint8_t* bits = mask + begin / 8;
    kernels.draw(draw, begin / kDropoutChunk, dropout_chunks(count),
                 reinterpret_cast<std::uint16_t*>(bits));
    kernels.apply(x.dtype(), in.data<std::byte>() + begin * size, bits, count,
                  dropout_scale(p), y + begin * size);
  });
  return result;
}

Tensor dropout_backward(const Tensor& dy, const Tensor& mask, float p) {
  constexpr std::string_view kOp = "dropout_backward";
  require_high_precision(kOp, "dy", dy);
  require_probability(kOp, "p", p);
  const std::int64_t n = dy.numel();
  require_dtype(kOp, "mask", mask, {DType::kU8});
  require_shape(kOp, "mask", mask, {dropout_mask_bytes(n)});
  const Device device = common_device(kOp, {&dy, &mask});
  const DropoutKernels& kernels = dropout_kernels(device);
  const Tensor in = contiguous(dy), bits = contiguous(mask);
  Tensor dx = Tensor::empty(dy.dtype(), dy.shape(), device);
  std::byte* out = dx.mutable_data();
  const std::int64_t size = traits(dy.dtype()).bits / 8;
  for_element_runs(n, [&](std::int64_t begin, std::int64_t count) {
    kernels.apply(dy.dtype(), in.data<std::byte>() + begin * size,
                  bits.data<std::uint8_t>() + begin / 8, count,
                  dropout_scale(p), out + begin * size);
  });
  return dx;
}

}  // namespace assay::te
