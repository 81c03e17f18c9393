#include "assay/te/quantize/fused.h"

#include <algorithm>

#include "assay/te/check.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/ops/row_blocks.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/rounding_point.h"

namespace assay::te {
namespace {

Shape result_shape(Activation act, Shape shape) {
  if (is_gated(act)) shape.back() /= 2;
  return shape;
}

// The unrounded fp32 results of an operator that works row by row.
template <typename Rows>
Tensor unrounded(const Shape& shape, Device device, const Rows& rows) {
  Tensor out = Tensor::empty(DType::kF32, shape, device);
  const auto m = matrix_shape(shape);
  float* to = out.mutable_data<float>();
  for_row_blocks(m.rows, rows_per_task(m.columns),
                 [&](std::int64_t begin, std::int64_t end) {
                   rows(begin, end, to + begin * m.columns);
                 });
  return out;
}

Tensor activation_f32(Activation act, const Tensor& x,
                      const ActivationOptions& options) {
  check_activation("activation_quantize", act, x, options);
  const Tensor in = contiguous(x);
  return unrounded(result_shape(act, x.shape()), x.device,
                   [&](std::int64_t begin, std::int64_t end, float* out) {
                     activation_rows_f32(act, in, begin, end, options, out);
                   });
}

Tensor dactivation_f32(Activation act, const Tensor& dy, const Tensor& x,
                       const ActivationOptions& options) {
  constexpr const char* kOp = "dactivation_quantize";
  check_activation_grad(kOp, act, dy, x, options);
  const Device device = common_device(kOp, {&dy, &x});
  const Tensor grad = contiguous(dy), in = contiguous(x);
  return unrounded(
      x.shape(), device, [&](std::int64_t begin, std::int64_t end, float* out) {
        activation_grad_rows_f32(act, grad, in, begin, end, options, out);
      });
}

}  // namespace

bool takes_rounded_input(const Quantizer& quantizer) {
  if (quantizer.mode() != ScalingMode::kTensor) return true;
  return dynamic_cast<const CurrentScalingQuantizer*>(&quantizer) != nullptr;
}

QuantizedWithDbias quantize_dbias(Quantizer& quantizer, const Tensor& x,
                                  InternalPrecision precision) {
  QuantizedTensor q = quantizer.quantize(x);
  return {std::move(q), bias_grad(x, x.dtype(), precision)};
}

QuantizedTensor activation_quantize(Quantizer& quantizer, Activation act,
                                    const Tensor& x,
                                    const ActivationOptions& options) {
  if (takes_rounded_input(quantizer))
    return quantizer.quantize(activation_forward(act, x, options));
  return quantizer.quantize_fused(activation_f32(act, x, options), x.dtype());
}

QuantizedTensor dactivation_quantize(Quantizer& quantizer, Activation act,
                                     const Tensor& dy, const Tensor& x,
                                     const ActivationOptions& options) {
  if (takes_rounded_input(quantizer))
    return quantizer.quantize(activation_backward(act, dy, x, options));
  return quantizer.quantize_fused(dactivation_f32(act, dy, x, options),
                                  x.dtype());
}

QuantizedWithDbias dactivation_quantize_dbias(Quantizer& quantizer,
                                              Activation act, const Tensor& dy,
                                              const Tensor& x,
                                              const ActivationOptions& options,
                                              InternalPrecision precision) {
  if (takes_rounded_input(quantizer)) {
    check_activation_grad("dactivation_quantize", act, dy, x, options);
    ActivationBiasGrads grads =
        activation_backward_dbias(act, dy, x, options, precision);
    return {quantizer.quantize(grads.dx), std::move(grads.dbias)};
  }
  const Tensor dx = dactivation_f32(act, dy, x, options);
  Tensor dbias = bias_grad(dx, x.dtype(), precision);
  return {quantizer.quantize_fused(dx, x.dtype()), std::move(dbias)};
}

}  // namespace assay::te
