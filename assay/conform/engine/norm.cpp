// rmsnorm, layernorm: te::RMSNorm and te::LayerNorm forward and backward, with
// the statistics that the forward keeps.
#include "assay/te/modules/norm.h"

#include "assay/conform/engine/engine.h"

namespace assay::conform {
namespace {

te::NormModuleOptions options_of(const AdapterCall& call) {
  te::NormModuleOptions options;
  options.eps = static_cast<float>(call.number("eps"));
  options.zero_centered_gamma = call.flag("zero_centered_gamma");
  options.params_dtype = call.dtype("params_dtype");
  options.device = call.device;
  return options;
}

Object defaults() {
  const te::NormModuleOptions options;
  return {{"eps", decimal(options.eps)},
          {"zero_centered_gamma", options.zero_centered_gamma}};
}

// NVTE's rmsnorm_bwd_add: the gradient of a residual connection is added to dx
// before it is rounded.
Tensor backward_add(const AdapterCall& call, te::RMSNorm& norm,
                    const te::NormModule::Context& context) {
  te::NormOptions options;
  options.eps = static_cast<float>(call.number("eps"));
  options.zero_centered_gamma = call.flag("zero_centered_gamma");
  te::Parameter& weight = norm.parameter("weight");
  te::NormBackward grads = te::rmsnorm_backward_add(
      call.input("dy"), context.saved.x, call.input("add"),
      context.saved.rsigma, *weight.value, options);
  te::accumulate_grad(weight, grads.dgamma);
  return std::move(grads.dx);
}

void train(const AdapterCall& call, te::NormModule& norm, te::RMSNorm* adding,
           AdapterResult& result) {
  te::NormModule::Context context;
  result.outputs["y"] = norm.forward(call.input("x"), &context);
  result.outputs["rsigma"] = context.saved.rsigma;
  if (!adding) result.outputs["mean"] = context.saved.mean;
  const bool add = adding && call.flag("add");
  result.outputs["grad.x"] = add ? backward_add(call, *adding, context)
                                 : norm.backward(call.input("dy"), context);
  put_gradients(result, norm);
}

AdapterResult run_norm(const AdapterCall& call, te::NormModule& norm,
                       te::RMSNorm* adding) {
  load_parameters(norm, call);
  AdapterResult result;
  if (call.flag("training"))
    train(call, norm, adding, result);
  else
    result.outputs["y"] = norm.forward(call.input("x"));
  put_state_dict(result, norm);
  result.contract["defaults"] = defaults();
  return result;
}

}  // namespace

AdapterResult run_rmsnorm(const AdapterCall& call) {
  te::RMSNorm norm(call.integer("hidden_size"), options_of(call));
  return run_norm(call, norm, &norm);
}

AdapterResult run_layernorm(const AdapterCall& call) {
  te::LayerNorm norm(call.integer("hidden_size"), options_of(call));
  return run_norm(call, norm, nullptr);
}

}  // namespace assay::conform
