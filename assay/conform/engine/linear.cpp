// linear: te::Linear forward and backward.
#include "assay/te/modules/linear.h"

#include "assay/conform/engine/engine.h"

namespace assay::conform {

AdapterResult run_linear(const AdapterCall& call) {
  te::LinearOptions options;
  options.bias = call.flag("bias");
  options.params_dtype = call.dtype();
  options.device = call.device;
  te::Linear layer(call.integer("in_features"), call.integer("out_features"),
                   options);
  load_parameters(layer, call);

  AdapterResult result;
  const std::optional<te::Recipe> recipe = recipe_of(call);
  for (int step = 1; step <= call.steps; ++step) {
    layer.zero_grad();
    te::Linear::Context context;
    Tensor y;
    with_recipe(recipe, [&] { y = layer.forward(call.input("x"), &context); });
    const Tensor dx = layer.backward(call.input("dy"), context);
    put_step(result, call, step, "y", y);
    put_step(result, call, step, "grad.x", dx);
  }
  put_gradients(result, layer);
  put_state_dict(result, layer);
  const te::LinearOptions defaults;
  result.contract["defaults"] =
      Object{{"bias", defaults.bias},
             {"return_bias", defaults.return_bias},
             {"params_dtype", std::string(traits(defaults.params_dtype).name)},
             {"fuse_wgrad_accumulation", defaults.fuse_wgrad_accumulation},
             {"delay_wgrad_compute", defaults.delay_wgrad_compute},
             {"save_original_input", defaults.save_original_input}};
  return result;
}

}  // namespace assay::conform
