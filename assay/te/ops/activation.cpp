#include "assay/te/ops/activation.h"

#include <cstring>
#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/activation_rows.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {
namespace {

constexpr std::string_view kNames[kActivationCount] = {
    "gelu",   "silu",  "relu",   "qgelu",  "srelu",          "glu",    "geglu",
    "swiglu", "reglu", "qgeglu", "sreglu", "clamped_swiglu", "situglu"};

Shape forward_shape(Activation act, Shape shape) {
  if (is_gated(act)) shape.back() /= 2;
  return shape;
}

}  // namespace

std::string_view activation_name(Activation act) {
  return kNames[static_cast<std::size_t>(act)];
}

std::optional<Activation> parse_activation(std::string_view name) {
  for (int i = 0; i < kActivationCount; ++i)
    if (kNames[i] == name) return static_cast<Activation>(i);
  return std::nullopt;
}

void check_activation(std::string_view op, Activation act, const Tensor& x,
                      const ActivationOptions& options) {
  require_high_precision(op, "x", x);
  const std::int64_t size = options.glu_interleave_size;
  require(size >= 0, op, "glu_interleave_size", std::to_string(size),
          "0 or more");
  if (!is_gated(act)) {
    require(size == 0, op, "glu_interleave_size", std::to_string(size),
            "0 for " + std::string(activation_name(act)));
    return;
  }
  require(!x.shape().empty() && x.shape().back() % 2 == 0, op, "x",
          "shape " + to_string(x.shape()), "an even last dimension");
  if (size > 0)
    require_multiple(op, "half the columns of x", x.shape().back() / 2, size);
}

void check_activation_grad(std::string_view op, Activation act,
                           const Tensor& dy, const Tensor& x,
                           const ActivationOptions& options) {
  check_activation(op, act, x, options);
  require_dtype(op, "dy", dy, {x.dtype()});
  require_shape(op, "dy", dy, forward_shape(act, x.shape()));
}

Tensor activation_forward(Activation act, const Tensor& x,
                          const ActivationOptions& options) {
  check_activation("activation_forward", act, x, options);
  const Tensor in = contiguous(x);
  const ActivationRows rows(act, in, options, x.dtype());
  Tensor y = Tensor::empty(x.dtype(), forward_shape(act, x.shape()), x.device);
  std::byte* out = y.mutable_data();
  const std::int64_t row_bytes =
      rows.out_columns() * traits(x.dtype()).bits / 8;
  for_row_blocks(rows.rows(), rows_per_task(rows.in_columns()),
                 [&](std::int64_t begin, std::int64_t end) {
                   rows.forward(begin, end - begin, 1.0f,
                                out + begin * row_bytes);
                 });
  return y;
}

Tensor activation_backward(Activation act, const Tensor& dy, const Tensor& x,
                           const ActivationOptions& options) {
  constexpr std::string_view kOp = "activation_backward";
  check_activation_grad(kOp, act, dy, x, options);
  const Device device = common_device(kOp, {&dy, &x});
  const Tensor in = contiguous(x), grad = contiguous(dy);
  const ActivationRows rows(act, in, options, x.dtype());
  Tensor dx = Tensor::empty(x.dtype(), x.shape(), device);
  std::byte* out = dx.mutable_data();
  const std::int64_t row_bytes = rows.in_columns() * traits(x.dtype()).bits / 8;
  for_row_blocks(rows.rows(), rows_per_task(rows.in_columns()),
                 [&](std::int64_t begin, std::int64_t end) {
                   rows.backward(grad.data<std::byte>(), begin, end - begin,
                                 1.0f, out + begin * row_bytes, nullptr);
                 });
  return dx;
}

void activation_rows_f32(Activation act, const Tensor& x, std::int64_t begin,
                         std::int64_t end, const ActivationOptions& options,
                         float* out) {
  ActivationRows(act, x, options, DType::kF32)
      .forward(begin, end - begin, 1.0f, out);
}

void activation_grad_rows_f32(Activation act, const Tensor& dy, const Tensor& x,
                              std::int64_t begin, std::int64_t end,
                              const ActivationOptions& options, float* out) {
  ActivationRows(act, x, options, DType::kF32)
      .backward(dy.data<std::byte>(), begin, end - begin, 1.0f, out, nullptr);
}

}  // namespace assay::te
