#include "assay/te/ops/dropout.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "assay/base/parallel.h"
#include "assay/kernels/dropout.h"
#include "assay/te/check.h"

namespace assay::te {
namespace {

constexpr std::int64_t kTaskElements = 1 << 16;  // a multiple of a chunk

void check_probability(std::string_view op, float p) {
  require(p >= 0 && p < 1, op, "p", std::to_string(p), "0 <= p < 1");
}

std::int64_t chunks_of(std::int64_t n) {
  return (n + kDropoutChunk - 1) / kDropoutChunk;
}

// Calls body(begin, count) for fixed runs of elements in parallel.
template <class Body>
void for_runs(std::int64_t n, const Body& body) {
  parallel_for((n + kTaskElements - 1) / kTaskElements, [&](std::int64_t i) {
    const std::int64_t begin = i * kTaskElements;
    body(begin, std::min(kTaskElements, n - begin));
  });
}

}  // namespace

DropoutForward dropout_forward(const Tensor& x, float p,
                               const DropoutState& state) {
  constexpr std::string_view kOp = "dropout_forward";
  require_high_precision(kOp, "x", x);
  check_probability(kOp, p);
  const DropoutKernels& kernels = dropout_kernels(x.device);
  const Tensor in = contiguous(x);
  const std::int64_t n = x.numel();
  DropoutForward result{
      Tensor::empty(x.dtype(), x.shape(), x.device),
      Tensor::empty(DType::kU8, {2 * chunks_of(n)}, x.device)};
  const DropoutDraw draw{state.seed, state.offset,
                         static_cast<std::uint32_t>(std::floor(p * 256.0f))};
  const float scale = 1.0f / (1.0f - p);
  const std::int64_t size = traits(x.dtype()).bits / 8;
  std::byte* y = result.y.mutable_data();
  auto* mask = result.mask.mutable_data<std::uint8_t>();
  for_runs(n, [&](std::int64_t begin, std::int64_t count) {
    std::uint8_t* bits = mask + begin / 8;
    kernels.draw(draw, begin / kDropoutChunk, chunks_of(count),
                 reinterpret_cast<std::uint16_t*>(bits));
    kernels.apply(x.dtype(), in.data<std::byte>() + begin * size, bits, count,
                  scale, y + begin * size);
  });
  return result;
}

Tensor dropout_backward(const Tensor& dy, const Tensor& mask, float p) {
  constexpr std::string_view kOp = "dropout_backward";
  require_high_precision(kOp, "dy", dy);
  check_probability(kOp, p);
  const std::int64_t n = dy.numel();
  require_dtype(kOp, "mask", mask, {DType::kU8});
  require_shape(kOp, "mask", mask, {2 * chunks_of(n)});
  const Device device = common_device(kOp, {&dy, &mask});
  const DropoutKernels& kernels = dropout_kernels(device);
  const Tensor in = contiguous(dy), bits = contiguous(mask);
  Tensor dx = Tensor::empty(dy.dtype(), dy.shape(), device);
  std::byte* out = dx.mutable_data();
  const float scale = 1.0f / (1.0f - p);
  const std::int64_t size = traits(dy.dtype()).bits / 8;
  for_runs(n, [&](std::int64_t begin, std::int64_t count) {
    kernels.apply(dy.dtype(), in.data<std::byte>() + begin * size,
                  bits.data<std::uint8_t>() + begin / 8, count, scale,
                  out + begin * size);
  });
  return dx;
}

}  // namespace assay::te
