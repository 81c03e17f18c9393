// fused_activation: the activations forward and backward, scaled by a factor
// per row, with the gradient of a bias, and quantised as they are made.
#include <optional>

#include "assay/conform/engine/linear_common.h"
#include "assay/conform/engine/quantized_output.h"
#include "assay/te/ops/activation.h"
#include "assay/te/quantize/fused.h"

namespace assay::conform {
namespace {

struct Activated {
  Activation act;
  te::ActivationOptions options;
};

Activated activated_of(const AdapterCall& call) {
  Activated a{activation_of(call), {}};
  a.options.glu_interleave_size = call.integer("glu_interleave_size");
  ActivationParams& params = a.options.params;
  params.limit = static_cast<float>(call.number("limit"));
  params.alpha = static_cast<float>(call.number("alpha"));
  params.linear_offset = static_cast<float>(call.number("glu_linear_offset"));
  params.beta1 = static_cast<float>(call.number("beta1"));
  params.beta2 = static_cast<float>(call.number("beta2"));
  return a;
}

void run_scaled(AdapterResult& result, const AdapterCall& call, int step,
                const Activated& a, const Tensor& x, const Tensor& dy) {
  const Tensor& scales = call.input("act_scales");
  put_step(result, call, step, "y",
           te::scaled_activation_forward(a.act, x, scales, a.options));
  const te::ScaledActivationGrads grads =
      te::scaled_activation_backward(a.act, dy, x, scales, a.options);
  put_step(result, call, step, "grad.x", grads.dx);
  put_step(result, call, step, "grad.act_scales", grads.act_scales);
}

void run_plain(AdapterResult& result, const AdapterCall& call, int step,
               const Activated& a, const Tensor& x, const Tensor& dy) {
  put_step(result, call, step, "y",
           te::activation_forward(a.act, x, a.options));
  if (!call.flag("dbias")) {
    put_step(result, call, step, "grad.x",
             te::activation_backward(a.act, dy, x, a.options));
    return;
  }
  const te::ActivationBiasGrads grads =
      te::activation_backward_dbias(a.act, dy, x, a.options);
  put_step(result, call, step, "grad.x", grads.dx);
  put_step(result, call, step, "grad.bias", grads.dbias);
}

void run_quantized(AdapterResult& result, const AdapterCall& call, int step,
                   const Activated& a, const Tensor& x, const Tensor& dy,
                   OperatorQuantizers& quantizers) {
  put_quantized(
      result, call, step, "quantized.y",
      te::activation_quantize(quantizers.input(), a.act, x, a.options));
  te::Quantizer& grad = quantizers.grad_output();
  if (!call.flag("dbias")) {
    put_quantized(result, call, step, "quantized.grad.x",
                  te::dactivation_quantize(grad, a.act, dy, x, a.options));
    return;
  }
  const te::QuantizedWithDbias both =
      te::dactivation_quantize_dbias(grad, a.act, dy, x, a.options);
  put_quantized(result, call, step, "quantized.grad.x", both.quantized);
  put_step(result, call, step, "quantized.grad.bias", both.dbias);
}

Object defaults() {
  const ActivationParams params;
  return {{"limit", decimal(params.limit)},
          {"alpha", decimal(params.alpha)},
          {"glu_linear_offset", decimal(params.linear_offset)},
          {"beta1", decimal(params.beta1)},
          {"beta2", decimal(params.beta2)}};
}

}  // namespace

AdapterResult run_fused_activation(const AdapterCall& call) {
  const Activated a = activated_of(call);
  const std::optional<te::Recipe> recipe = recipe_of(call);
  std::optional<OperatorQuantizers> quantizers;
  if (recipe) quantizers.emplace(*recipe);
  AdapterResult result;
  for (int step = 1; step <= call.steps; ++step) {
    const Tensor x = step_input(call, "x", step);
    const Tensor dy = step_input(call, "dy", step);
    const auto run = call.flag("scaled") ? run_scaled : run_plain;
    run(result, call, step, a, x, dy);
    if (!quantizers) continue;
    run_quantized(result, call, step, a, x, dy, *quantizers);
    quantizers->update();
  }
  if (quantizers) quantizers->put_histories(result);
  result.contract["defaults"] = defaults();
  return result;
}

}  // namespace assay::conform
