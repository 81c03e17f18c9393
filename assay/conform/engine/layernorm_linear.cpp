// layernorm_linear: te::LayerNormLinear forward and backward.
#include "assay/te/modules/layernorm_linear.h"

#include "assay/conform/engine/linear_common.h"

namespace assay::conform {

AdapterResult run_layernorm_linear(const AdapterCall& call) {
  te::NormLinearOptions options;
  set_norm_linear_options(call, options);
  te::LayerNormLinear layer(call.integer("in_features"),
                            call.integer("out_features"), options);
  AdapterResult result;
  const std::optional<te::Recipe> recipe = linear_recipe(call);
  run_steps(call, layer, result, [&](int step) {
    te::LayerNormLinear::Context context;
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
  result.contract["defaults"] = norm_linear_defaults({});
  return result;
}

}  // namespace assay::conform
