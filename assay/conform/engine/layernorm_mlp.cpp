// layernorm_mlp: te::LayerNormMLP forward and backward.
#include "assay/te/modules/layernorm_mlp.h"

#include "assay/conform/engine/linear_common.h"

namespace assay::conform {

AdapterResult run_layernorm_mlp(const AdapterCall& call) {
  te::LayerNormMLPOptions options;
  set_norm_linear_options(call, options);
  options.activation = activation_of(call);
  options.checkpoint = call.flag("checkpoint");
  te::LayerNormMLP layer(call.integer("hidden_size"),
                         call.integer("ffn_hidden_size"), options);
  AdapterResult result;
  const std::optional<te::Recipe> recipe = linear_recipe(call);
  run_steps(call, layer, result, [&](int step) {
    te::LayerNormMLP::Context context;
    te::NormLinearOutput out;
    with_recipe(recipe, [&] {
      out = layer.forward(step_input(call, "x", step), &context,
                          linear_call(call, step));
    });
    put_step(result, call, step, "y", out.output);
    Tensor dz;
    if (out.layernorm_output) {
      put_step(result, call, step, "layernorm_output", *out.layernorm_output);
      dz = step_input(call, "d_layernorm_output", step);
    }
    put_step(result, call, step, "grad.x",
             layer.backward(step_input(call, "dy", step), context,
                            out.layernorm_output ? &dz : nullptr));
  });
  const te::LayerNormMLPOptions defaults;
  Object& contract =
      (result.contract["defaults"] = norm_linear_defaults(defaults)).object();
  contract["activation"] = te::activation_name(defaults.activation);
  contract["checkpoint"] = defaults.checkpoint;
  return result;
}

}  // namespace assay::conform
