#include "assay/te/fusible/activation.h"

#include <array>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/fused.h"

namespace assay::te::ops {
namespace {

constexpr std::array<std::string_view, kActivationCount> kNames = {
    "GELU",   "SiLU",  "ReLU",   "QGELU",  "SReLU",         "GLU",    "GEGLU",
    "SwiGLU", "ReGLU", "QGEGLU", "SReGLU", "ClampedSwiGLU", "SiTUGLU"};

struct Saved {
  std::optional<Tensor> x;
  std::optional<QuantizedTensor> quantized;
  void visit_tensors(const TensorVisitor& visit) const {
    if (x) visit(*x);
    if (quantized) te::visit_tensors(*quantized, visit);
  }
};

struct ScaledSaved {
  Tensor x, scales;
  void visit_tensors(const TensorVisitor& visit) const {
    visit(x);
    visit(scales);
  }
};

Shape result_shape(Activation act, Shape shape) {
  if (is_gated(act) && !shape.empty()) shape.back() /= 2;
  return shape;
}

}  // namespace

std::string_view operation_name(Activation act) {
  return kNames[static_cast<std::size_t>(act)];
}

ActivationOperation::ActivationOperation(
    Activation act, const ActivationOperationOptions& options)
    : BasicOperation(std::string(operation_name(act))),
      act_(act),
      options_{options.params, options.glu_interleave_size},
      cache_quantized_input_(options.cache_quantized_input) {
  require(is_gated(act) || options.glu_interleave_size == 0, name(),
          "glu_interleave_size", std::to_string(options.glu_interleave_size),
          "0: it is not gated");
}

void ActivationOperation::save_input(const Tensor& x,
                                     OperationContext& context) const {
  Saved& saved = context.saved.emplace<Saved>();
  if (!cache_quantized_input_) {
    saved.x = x;
    return;
  }
  CurrentScalingQuantizer quantizer(
      CurrentScalingOptions{.format = DType::kE4M3FN});
  quantizer.set_usage({true, false});
  saved.quantized = quantizer.quantize(x);
}

Tensor ActivationOperation::take_input(OperationContext& context) const {
  Saved& saved = context.saved.as<Saved>();
  Tensor x =
      saved.x ? *saved.x : dequantize(*saved.quantized, saved.quantized->dtype);
  context.saved.reset();
  return x;
}

Value ActivationOperation::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  check_activation(name(), act_, x, options_);
  if (step.context) save_input(x, *step.context);
  if (Quantizer* quantizer = step.next_quantizer(result_shape(act_, x.shape())))
    return activation_quantize(*quantizer, act_, x, options_);
  return activation_forward(act_, x, options_);
}

Value ActivationOperation::backward(Value grad, BackwardStep& step) {
  const Tensor dy = tensor_of(grad);
  const Tensor x = take_input(*step.context);
  if (Quantizer* quantizer = step.previous_quantizer())
    return dactivation_quantize(*quantizer, act_, dy, x, options_);
  return activation_backward(act_, dy, x, options_);
}

ScaledActivation::ScaledActivation(std::string type, Activation act,
                                   ActivationOptions options)
    : BasicOperation(std::move(type)), act_(act), options_(options) {}

Value ScaledActivation::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  const Tensor& scales = step.extra_inputs[0];
  if (step.context) step.context->saved.emplace<ScaledSaved>() = {x, scales};
  return scaled_activation_forward(act_, x, scales, options_);
}

Value ScaledActivation::backward(Value grad, BackwardStep& step) {
  const auto& saved = step.context->saved.as<ScaledSaved>();
  ScaledActivationGrads grads = scaled_activation_backward(
      act_, tensor_of(grad), saved.x, saved.scales, options_);
  step.extra_input_grads = {with_shape(grads.act_scales, saved.scales.shape())};
  step.context->saved.reset();
  return std::move(grads.dx);
}

ScaledSwiGLU::ScaledSwiGLU(std::int64_t glu_interleave_size)
    : ScaledActivation("ScaledSwiGLU", Activation::kSwiglu,
                       {{}, glu_interleave_size}) {}

ScaledSiTUGLU::ScaledSiTUGLU(std::int64_t glu_interleave_size, float beta1,
                             float beta2)
    : ScaledActivation(
          "ScaledSiTUGLU", Activation::kSituglu,
          {{.beta1 = beta1, .beta2 = beta2}, glu_interleave_size}) {}

ScaledClampedQGeGLU::ScaledClampedQGeGLU(std::int64_t glu_interleave_size,
                                         float limit, float alpha,
                                         float glu_linear_offset)
    : ScaledActivation(
          "ScaledClampedQGeGLU", Activation::kClampedSwiglu,
          {{.limit = limit, .alpha = alpha, .linear_offset = glu_linear_offset},
           glu_interleave_size}) {}

ScaledSReLU::ScaledSReLU()
    : ScaledActivation("ScaledSReLU", Activation::kSRelu, {}) {}

}  // namespace assay::te::ops
