// fused_optimizer: FusedAdam and FusedSGD over steps, parameters and states.
#include <memory>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/conform/engine/engine.h"
#include "assay/conform/tensor_file.h"
#include "assay/te/optim/optimizer.h"

namespace assay::conform {
namespace {

// The parameters of every case: a of many elements, b a matrix, and one
// without elements.
constexpr const char* kNames[] = {"a", "b", "empty"};

// Loss scaling of the capturable form: gradients times this, and a step that
// found an overflow.
constexpr float kInvScale = 0.125f;
constexpr int kSkippedStep = 3;

// Memory of its own, with the strides of a strided one.
Tensor own(const Tensor& x) {
  return x.view.is_contiguous() ? snapshot(x) : strided_view(x);
}

te::FusedAdamOptions adam_options(const AdapterCall& call) {
  te::FusedAdamOptions options;
  options.lr = call.number("lr");
  options.beta1 = call.number("beta1");
  options.beta2 = call.number("beta2");
  options.eps = call.number("eps");
  options.weight_decay = call.number("weight_decay");
  options.amsgrad = call.flag("amsgrad");
  options.bias_correction = call.flag("bias_correction");
  options.adam_w_mode = call.flag("adam_w_mode");
  options.master_weights = call.flag("master_weights");
  options.master_weight_dtype = call.dtype("master_weight_dtype");
  options.exp_avg_dtype = call.dtype("exp_avg_dtype");
  options.exp_avg_sq_dtype = call.dtype("exp_avg_sq_dtype");
  options.store_param_remainders = call.flag("store_param_remainders");
  return options;
}

te::FusedSGDOptions sgd_options(const AdapterCall& call) {
  te::FusedSGDOptions options;
  options.lr = call.number("lr");
  options.momentum = call.number("momentum");
  options.dampening = call.number("dampening");
  options.weight_decay = call.number("weight_decay");
  options.nesterov = call.flag("nesterov");
  options.wd_after_momentum = call.flag("wd_after_momentum");
  options.master_weights = call.flag("master_weights");
  return options;
}

std::unique_ptr<te::Optimizer> optimizer_of(
    const AdapterCall& call, std::vector<te::OptimizerParameter> parameters) {
  const std::string& name = call.text("optimizer");
  if (name == "adam")
    return std::make_unique<te::FusedAdam>(std::move(parameters),
                                           adam_options(call));
  if (name == "sgd")
    return std::make_unique<te::FusedSGD>(std::move(parameters),
                                          sgd_options(call));
  throw Error(Code::kUsage,
              call.module + ": optimizer: " + name + ", expected adam or sgd");
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// Masters in fp32 however they are kept, other states as they are.
void put_states(AdapterResult& result, const AdapterCall& call, int step,
                te::Optimizer& optimizer) {
  for (const te::NamedTensor& state : optimizer.state_dict()) {
    if (state.name == "step") continue;
    constexpr std::string_view kMaster = ".master_param";
    if (ends_with(state.name, ".master_param.scale")) continue;
    if (!ends_with(state.name, kMaster)) {
      put_step(result, call, step, state.name, snapshot(state.tensor));
      continue;
    }
    const std::string parameter =
        state.name.substr(0, state.name.size() - kMaster.size());
    put_step(result, call, step, state.name,
             optimizer.unscaled_state(parameter, "master_param"));
  }
}

// Names, dtypes and sizes of the states; scales are how a state is kept.
Object states_of(te::Optimizer& optimizer) {
  Object names;
  for (const te::NamedTensor& state : optimizer.state_dict())
    if (state.name != "step" && !ends_with(state.name, ".scale"))
      names[state.name] = dtype_and_sizes(state.tensor);
  return names;
}

Value name_of(DType dtype) { return std::string(traits(dtype).name); }

Object defaults() {
  const te::FusedAdamOptions adam;
  const te::FusedSGDOptions sgd;
  return {{"FusedAdam",
           Object{{"lr", adam.lr},
                  {"betas", List{adam.beta1, adam.beta2}},
                  {"eps", adam.eps},
                  {"weight_decay", adam.weight_decay},
                  {"amsgrad", adam.amsgrad},
                  {"bias_correction", adam.bias_correction},
                  {"adam_w_mode", adam.adam_w_mode},
                  {"master_weights", adam.master_weights},
                  {"master_weight_dtype", name_of(adam.master_weight_dtype)},
                  {"exp_avg_dtype", name_of(adam.exp_avg_dtype)},
                  {"exp_avg_sq_dtype", name_of(adam.exp_avg_sq_dtype)},
                  {"store_param_remainders", adam.store_param_remainders}}},
          {"FusedSGD", Object{{"momentum", sgd.momentum},
                              {"dampening", sgd.dampening},
                              {"weight_decay", sgd.weight_decay},
                              {"nesterov", sgd.nesterov},
                              {"wd_after_momentum", sgd.wd_after_momentum}}}};
}

}  // namespace

AdapterResult run_fused_optimizer(const AdapterCall& call) {
  std::vector<te::OptimizerParameter> parameters;
  for (const char* name : kNames)
    parameters.push_back({name, own(call.input(name))});
  const std::unique_ptr<te::Optimizer> optimizer =
      optimizer_of(call, parameters);
  const bool capturable = call.flag("capturable");
  AdapterResult result;
  for (int step = 1; step <= call.steps; ++step) {
    std::vector<Tensor> grads;
    for (const char* name : kNames)
      grads.push_back(
          own(entry(call.input(std::string("grad.") + name), step - 1)));
    Tensor found_inf = Tensor::zeros(DType::kF32, {1}, call.device);
    te::StepOptions options;
    if (capturable) {
      *found_inf.mutable_data<float>() = step == kSkippedStep ? 1.0f : 0.0f;
      options = {.inv_scale = kInvScale, .found_inf = &found_inf};
    }
    optimizer->step(grads, options);
    for (const te::OptimizerParameter& parameter : parameters)
      put_step(result, call, step, parameter.name, snapshot(parameter.value));
    put_states(result, call, step, *optimizer);
  }
  result.contract["state_dict"] = states_of(*optimizer);
  result.contract["defaults"] = defaults();
  return result;
}

}  // namespace assay::conform
