// linear: te::Linear forward and backward.
#include "assay/te/modules/linear.h"

#include "assay/conform/engine/linear_common.h"

namespace assay::conform {
namespace {

te::LinearOptions options_of(const AdapterCall& call) {
  te::LinearOptions options;
  set_linear_options(call, options);
  // Two parameters of one weight, the first with a half of its rows.
  const std::int64_t out = call.integer("out_features");
  if (call.flag("parameters_split"))
    options.parameters_split = {{"query", out / 2}, {"key", out - out / 2}};
  return options;
}

}  // namespace

AdapterResult run_linear(const AdapterCall& call) {
  te::Linear layer(call.integer("in_features"), call.integer("out_features"),
                   options_of(call));
  AdapterResult result;
  const std::optional<te::Recipe> recipe = linear_recipe(call);
  run_steps(call, layer, result, [&](int step) {
    te::Linear::Context context;
    Tensor y;
    with_recipe(recipe, [&] {
      y = layer.forward(step_input(call, "x", step), &context,
                        linear_call(call, step));
    });
    put_step(result, call, step, "y", y);
    put_step(result, call, step, "grad.x",
             layer.backward(step_input(call, "dy", step), context));
  });
  const te::LinearOptions defaults;
  result.contract["defaults"] = linear_defaults(defaults);
  result.contract["defaults"].object()["save_original_input"] =
      defaults.save_original_input;
  return result;
}

}  // namespace assay::conform
