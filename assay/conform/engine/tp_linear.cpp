// tp_linear: te::Linear whose weight is cut across the ranks.
#include "assay/conform/engine/linear_common.h"
#include "assay/conform/engine/parallel.h"
#include "assay/te/modules/linear.h"
#include "assay/te/parallel/collectives.h"

namespace assay::conform {
namespace {

// How each tensor lies on the ranks: where they cut it.
struct Layout {
  std::string name;  // of the outputs: "column", "column_sp" ...
  Cut x = Cut::kNone, y = Cut::kNone, weight = Cut::kNone, bias = Cut::kNone;
};

Layout layout_of(te::ParallelMode mode, bool sequence_parallel) {
  const Cut tokens = sequence_parallel ? Cut::kFirst : Cut::kNone;
  const std::string end = sequence_parallel ? "_sp" : "";
  if (mode == te::ParallelMode::kColumn)
    return {"column" + end, tokens, Cut::kLast, Cut::kFirst, Cut::kFirst};
  return {"row" + end, Cut::kLast, tokens, Cut::kLast, Cut::kNone};
}

// The case as this rank sees it: parameters are its parts.
AdapterCall own_call(const AdapterCall& call, const Layout& layout,
                     const te::Communicator& group) {
  AdapterCall own = call;
  own.inputs["weight"] = part_of(call.input("weight"), layout.weight, group);
  if (call.flag("bias"))
    own.inputs["bias"] = part_of(call.input("bias"), layout.bias, group);
  return own;
}

}  // namespace

AdapterResult run_tp_linear(const AdapterCall& call) {
  const std::shared_ptr<te::Communicator> group = group_of(call);
  te::LinearOptions options;
  options.bias = call.flag("bias");
  options.params_dtype = call.dtype();
  options.device = call.device;
  options.parallel_mode = te::parse_parallel_mode(call.text("parallel_mode"));
  options.tp = {group, call.flag("sequence_parallel")};
  te::Linear layer(call.integer("in_features"), call.integer("out_features"),
                   options);
  const Layout layout =
      layout_of(options.parallel_mode, options.tp.sequence_parallel);
  load_parameters(layer, own_call(call, layout, *group));

  AdapterResult result;
  const std::optional<te::Recipe> recipe = recipe_of(call);
  for (int step = 1; step <= call.steps; ++step) {
    layer.zero_grad();
    te::Linear::Context context;
    const Tensor x = part_of(step_input(call, "x", step), layout.x, *group);
    Tensor y;
    if (recipe) {
      te::Autocast autocast(te::AutocastOptions{
          .recipe = *recipe,
          .amax_reduction = te::group_amax_reduction(group)});
      y = layer.forward(x, &context);
    } else {
      y = layer.forward(x, &context);
    }
    const Tensor dx = layer.backward(
        part_of(step_input(call, "dy", step), layout.y, *group), context);
    put_step(result, call, step, layout.name + ".y", y);
    put_step(result, call, step, layout.name + ".grad.x", dx);
  }
  for (const te::NamedParameter& p : layer.parameters())
    result.outputs[layout.name + ".grad." + p.name] = *p.parameter->grad;
  put_histories(result, layer);
  put_state_dict(result, layer);
  return result;
}

}  // namespace assay::conform
