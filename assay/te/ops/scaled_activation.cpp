// Activations scaled by a factor per row.
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/activation.h"
#include "assay/te/ops/activation_rows.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {
namespace {

// The factors as fp32, checked.
std::vector<float> row_scales(std::string_view op, const Tensor& x,
                              const Tensor& act_scales) {
  require_dtype(op, "act_scales", act_scales, {DType::kF32, x.dtype()});
  const std::int64_t rows = matrix_shape(x.shape()).rows;
  require(act_scales.numel() == rows, op, "act_scales",
          std::to_string(act_scales.numel()) + " values",
          std::to_string(rows) + ", one per row");
  const Tensor flat = contiguous(act_scales);
  std::vector<float> scales(static_cast<std::size_t>(rows));
  for (std::int64_t r = 0; r < rows; ++r)
    scales[static_cast<std::size_t>(r)] = static_cast<float>(
        load_as_double(flat.dtype(), flat.data<std::byte>(), r));
  return scales;
}

}  // namespace

Tensor scaled_activation_forward(Activation act, const Tensor& x,
                                 const Tensor& act_scales,
                                 const ActivationOptions& options) {
  constexpr std::string_view kOp = "scaled_activation_forward";
  check_activation(kOp, act, x, options);
  const Device device = common_device(kOp, {&x, &act_scales});
  const auto scales = row_scales(kOp, x, act_scales);
  const Tensor in = contiguous(x);
  const ActivationRows rows(act, in, options, x.dtype());
  Shape shape = x.shape();
  if (is_gated(act)) shape.back() /= 2;
  Tensor y = Tensor::empty(x.dtype(), shape, device);
  std::byte* out = y.mutable_data();
  const std::int64_t row_bytes =
      rows.out_columns() * traits(x.dtype()).bits / 8;
  for_row_blocks(rows.rows(), rows_per_task(rows.in_columns()),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r)
                     rows.forward(r, 1, scales[static_cast<std::size_t>(r)],
                                  out + r * row_bytes);
                 });
  return y;
}

ScaledActivationGrads scaled_activation_backward(
    Activation act, const Tensor& dy, const Tensor& x, const Tensor& act_scales,
    const ActivationOptions& options) {
  constexpr std::string_view kOp = "scaled_activation_backward";
  check_activation_grad(kOp, act, dy, x, options);
  const Device device = common_device(kOp, {&dy, &x, &act_scales});
  const auto scales = row_scales(kOp, x, act_scales);
  const Tensor in = contiguous(x), grad = contiguous(dy);
  const ActivationRows rows(act, in, options, x.dtype());
  ScaledActivationGrads grads{
      Tensor::empty(x.dtype(), x.shape(), device),
      Tensor::empty(act_scales.dtype(), act_scales.shape(), device)};
  std::byte* dx = grads.dx.mutable_data();
  std::byte* dscales = grads.act_scales.mutable_data();
  const std::int64_t row_bytes = rows.in_columns() * traits(x.dtype()).bits / 8;
  for_row_blocks(rows.rows(), rows_per_task(rows.in_columns()),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r) {
                     double dot = 0;
                     rows.backward(grad.data<std::byte>(), r, 1,
                                   scales[static_cast<std::size_t>(r)],
                                   dx + r * row_bytes, &dot);
                     store_from_double(act_scales.dtype(), dot, dscales, r);
                   }
                 });
  return grads;
}

}  // namespace assay::te
