// What the adapters of modules with linear layers share: the options, and the
// steps that a case takes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "assay/conform/engine/engine.h"
#include "assay/te/modules/layernorm_linear.h"
#include "assay/te/modules/linear.h"
#include "assay/te/ops/activation.h"

namespace assay::conform {

// Of the parameters that the case has, NVTE's names: bias, return_bias,
// fuse_wgrad_accumulation, delay_wgrad_compute, save_original_input, and
// dtype.
void set_linear_options(const AdapterCall& call, te::LinearOptions& options);
// Beside those: eps, normalization, zero_centered_gamma,
// return_layernorm_output.
void set_norm_linear_options(const AdapterCall& call,
                             te::NormLinearOptions& options);

// recipe_of(), with the parameter backward_override where the case has it.
std::optional<te::Recipe> linear_recipe(const AdapterCall& call);

// is_first_microbatch "cached": true in step 1, false after it; "none".
te::LinearCall linear_call(const AdapterCall& call, int step);

// What step `step` (1, 2, ...) takes for the input `name`: x * 0.75^(step - 1),
// the product in fp32, rounded to x's dtype. Every step has another amax, none
// a power of two apart, so that a scale or a row of a history that is a step
// too old shows. The input itself, with its strides, in step 1.
Tensor step_input(const AdapterCall& call, const std::string& name, int step);

// Outputs "_extra_state.scale_fwd" ...: what delayed scaling remembers, under
// the names of the state dict. Nothing under other recipes.
void put_histories(AdapterResult& result, te::Module& module);

// Runs `step` for each step under the case's recipe; it does one forward and
// one backward. Parameters are loaded before; a gradient is that of the last
// step, but main_grad (where fuse_wgrad_accumulation puts one, zero, at every
// GEMM's weight) adds up over all. Then gradients, histories and the state
// dict go to the result.
void run_steps(const AdapterCall& call, te::Module& layer,
               AdapterResult& result,
               const std::function<void(int step)>& step);

// The parameter `activation`: gelu, swiglu ...
Activation activation_of(const AdapterCall& call);

// Defaults of the options that every such module has.
Object linear_defaults(const te::LinearOptions& options);
Object norm_linear_defaults(const te::NormLinearOptions& options);

}  // namespace assay::conform
