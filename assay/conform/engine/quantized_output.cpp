#include "assay/conform/engine/quantized_output.h"

#include <vector>

namespace assay::conform {
namespace {

te::RecipeState state_of(const te::Recipe& recipe, te::Role role) {
  const std::vector<te::QuantizerRole> roles = {{.role = role}};
  return te::make_recipe_state(recipe, roles);
}

void put_direction(AdapterResult& result, const AdapterCall& call, int step,
                   const std::string& name,
                   const std::optional<te::QuantizedData>& data) {
  if (!data) return;
  put_step(result, call, step, name + ".codes", data->data);
  put_step(result, call, step, name + ".scale_inv", data->scale_inv);
  if (data->mode == te::ScalingMode::kNVFP4)
    put_step(result, call, step, name + ".amax", data->amax);
}

void put_history(AdapterResult& result, const te::RecipeState& state,
                 const std::string& suffix) {
  for (const te::DelayedGroup& group : state.delayed) {
    result.outputs["scale_" + suffix] = group.state->scale;
    result.outputs["amax_history_" + suffix] = group.state->amax_history;
  }
}

}  // namespace

void put_quantized(AdapterResult& result, const AdapterCall& call, int step,
                   const std::string& name, const te::QuantizedTensor& tensor) {
  put_direction(result, call, step, name + ".row", tensor.rowwise);
  put_direction(result, call, step, name + ".column", tensor.columnwise);
}

OperatorQuantizers::OperatorQuantizers(const te::Recipe& recipe)
    : forward_(state_of(recipe, te::Role::kInput)),
      backward_(state_of(recipe, te::Role::kGradOutput)) {}

void OperatorQuantizers::update() {
  for (te::RecipeState* state : {&forward_, &backward_})
    te::update_delayed_scaling({&state, 1});
}

void OperatorQuantizers::put_histories(AdapterResult& result) {
  put_history(result, forward_, "fwd");
  put_history(result, backward_, "bwd");
}

}  // namespace assay::conform
