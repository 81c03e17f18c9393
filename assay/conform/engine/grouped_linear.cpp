// grouped_linear: te::GroupedLinear forward and backward.
#include "assay/te/modules/grouped_linear.h"

#include "assay/conform/engine/linear_common.h"

namespace assay::conform {
namespace {

std::vector<std::int64_t> splits_of(const AdapterCall& call) {
  const auto found = call.parameters.find("m_splits");
  std::vector<std::int64_t> splits;
  if (found != call.parameters.end())
    for (const Value& rows : found->second.list())
      splits.push_back(rows.integer());
  return splits;
}

}  // namespace

AdapterResult run_grouped_linear(const AdapterCall& call) {
  te::GroupedLinearOptions options;
  set_linear_options(call, options);
  options.single_grouped_weight = call.flag("single_grouped_weight");
  options.single_grouped_bias = call.flag("single_grouped_bias");
  const std::vector<std::int64_t> splits = splits_of(call);
  te::GroupedLinear layer(static_cast<int>(call.integer("num_gemms")),
                          call.integer("in_features"),
                          call.integer("out_features"), options);
  AdapterResult result;
  const std::optional<te::Recipe> recipe = linear_recipe(call);
  run_steps(call, layer, result, [&](int step) {
    te::GroupedLinear::Context context;
    Tensor y;
    with_recipe(recipe, [&] {
      y = layer.forward(step_input(call, "x", step), &context, splits,
                        linear_call(call, step));
    });
    put_step(result, call, step, "y", y);
    put_step(result, call, step, "grad.x",
             layer.backward(step_input(call, "dy", step), context));
  });
  const te::GroupedLinearOptions defaults;
  Object& contract =
      (result.contract["defaults"] = linear_defaults(defaults)).object();
  contract["save_original_input"] = defaults.save_original_input;
  contract["single_grouped_weight"] = defaults.single_grouped_weight;
  contract["single_grouped_bias"] = defaults.single_grouped_bias;
  return result;
}

}  // namespace assay::conform
