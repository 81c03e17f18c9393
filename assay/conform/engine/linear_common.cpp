#include "assay/conform/engine/linear_common.h"

#include <fmt/format.h>

#include <cmath>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/te/optim/multi_tensor.h"

namespace assay::conform {
namespace {

bool flag_or(const AdapterCall& call, std::string_view name, bool otherwise) {
  return call.has(name) ? call.flag(name) : otherwise;
}

te::BackwardOverride parse_override(const AdapterCall& call) {
  const std::string& text = call.text("backward_override");
  if (text == "none") return te::BackwardOverride::kNone;
  if (text == "high_precision") return te::BackwardOverride::kHighPrecision;
  if (text == "dequantized") return te::BackwardOverride::kDequantized;
  throw Error(Code::kUsage,
              fmt::format("{}: backward_override: {}, expected none, "
                          "high_precision or dequantized",
                          call.module, printable(text)));
}

bool is_gemm_weight(const std::string& name) {
  return name.find("weight") != std::string::npos &&
         name.find("norm") == std::string::npos;
}

void put_main_grads(const AdapterCall& call, te::Module& layer) {
  if (!flag_or(call, "fuse_wgrad_accumulation", false)) return;
  for (const te::NamedParameter& p : layer.parameters())
    if (is_gemm_weight(p.name))
      p.parameter->main_grad =
          Tensor::zeros(DType::kF32, p.parameter->shape, call.device);
}

}  // namespace

void set_linear_options(const AdapterCall& call, te::LinearOptions& options) {
  options.bias = flag_or(call, "bias", options.bias);
  options.return_bias = flag_or(call, "return_bias", false);
  options.fuse_wgrad_accumulation =
      flag_or(call, "fuse_wgrad_accumulation", false);
  options.delay_wgrad_compute = flag_or(call, "delay_wgrad_compute", false);
  options.save_original_input = flag_or(call, "save_original_input", false);
  options.params_dtype = call.dtype();
  options.device = call.device;
}

void set_norm_linear_options(const AdapterCall& call,
                             te::NormLinearOptions& options) {
  set_linear_options(call, options);
  options.eps = static_cast<float>(call.number("eps"));
  options.normalization = te::parse_normalization(call.text("normalization"));
  options.zero_centered_gamma = call.flag("zero_centered_gamma");
  options.return_layernorm_output =
      flag_or(call, "return_layernorm_output", false);
}

std::optional<te::Recipe> linear_recipe(const AdapterCall& call) {
  std::optional<te::Recipe> recipe = recipe_of(call);
  if (recipe && call.has("backward_override"))
    std::visit([&](auto& r) { r.backward_override = parse_override(call); },
               *recipe);
  return recipe;
}

Activation activation_of(const AdapterCall& call) {
  const std::string& name = call.text("activation");
  if (const auto found = te::parse_activation(name)) return *found;
  throw Error(Code::kUsage, fmt::format("{}: activation: no {}", call.module,
                                        printable(name)));
}

te::LinearCall linear_call(const AdapterCall& call, int step) {
  te::LinearCall options;
  if (call.has("is_first_microbatch") &&
      call.text("is_first_microbatch") == "cached")
    options.is_first_microbatch = step == 1;
  return options;
}

Tensor step_input(const AdapterCall& call, const std::string& name, int step) {
  const Tensor& given = call.input(name);
  if (step == 1 || given.numel() == 0) return given;
  Tensor scaled = Tensor::empty(given.dtype(), given.shape(), given.device);
  const float factor = static_cast<float>(std::pow(0.75, step - 1));
  te::multi_tensor_scale({{given}}, {&scaled, 1}, factor);
  return scaled;
}

void put_histories(AdapterResult& result, te::Module& module) {
  for (const te::NamedTensor& entry : module.state_dict())
    if (entry.name.find("_extra_state.scale_") != std::string::npos ||
        entry.name.find("_extra_state.amax_history_") != std::string::npos)
      result.outputs[entry.name] = entry.tensor;
}

void run_steps(const AdapterCall& call, te::Module& layer,
               AdapterResult& result,
               const std::function<void(int step)>& step) {
  load_parameters(layer, call);
  put_main_grads(call, layer);
  for (int s = 1; s <= call.steps; ++s) {
    for (const te::NamedParameter& p : layer.parameters())
      p.parameter->grad.reset();
    step(s);
    if (layer.need_backward_dw()) layer.backward_dw();
  }
  put_gradients(result, layer);
  for (const te::NamedParameter& p : layer.parameters())
    if (p.parameter->main_grad)
      result.outputs["main_grad." + p.name] = *p.parameter->main_grad;
  put_histories(result, layer);
  put_state_dict(result, layer);
}

Object linear_defaults(const te::LinearOptions& options) {
  return {{"bias", options.bias},
          {"return_bias", options.return_bias},
          {"params_dtype", std::string(traits(options.params_dtype).name)},
          {"fuse_wgrad_accumulation", options.fuse_wgrad_accumulation},
          {"delay_wgrad_compute", options.delay_wgrad_compute}};
}

Object norm_linear_defaults(const te::NormLinearOptions& options) {
  Object defaults = linear_defaults(options);
  defaults["eps"] = decimal(options.eps);
  defaults["normalization"] =
      options.normalization == te::Normalization::kRMSNorm ? "RMSNorm"
                                                           : "LayerNorm";
  defaults["zero_centered_gamma"] = options.zero_centered_gamma;
  defaults["return_layernorm_output"] = options.return_layernorm_output;
  return defaults;
}

}  // namespace assay::conform
