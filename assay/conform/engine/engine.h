// What the adapters of the engine share, and the list of them.
#pragma once

#include <optional>
#include <string>

#include "assay/conform/adapter.h"
#include "assay/te/modules/autocast.h"
#include "assay/te/modules/module.h"

namespace assay::conform {

// Sets every parameter of `module` from the input of its name, and throws
// Error{kUsage} where one is missing. Parameter "self_attention.qkv.weight" is
// the input of that name.
void load_parameters(te::Module& module, const AdapterCall& call);

// "grad.<parameter>" for every parameter that has a gradient.
void put_gradients(AdapterResult& result, te::Module& module);

// contract.state_dict: {name: [dtype, [sizes]]} of parameters and extra state.
void put_state_dict(AdapterResult& result, te::Module& module);

// `name` where the case has one step, "<name>.step<step>" where it has more.
void put_step(AdapterResult& result, const AdapterCall& call, int step,
              const std::string& name, const Tensor& tensor);

// Codes as their bytes: uint8 of the same shape, two e2m1 codes a byte.
// Contiguous tensors whose rows fill whole bytes.
Tensor raw_bytes(const Tensor& codes);

// A contiguous copy with memory of its own: what the next step will not change.
Tensor snapshot(const Tensor& tensor);

// x[index] of [n, ...], with the strides of x where it has some. Whole bytes.
Tensor entry(const Tensor& x, std::int64_t index);

// [dtype, [sizes]], as contract.state_dict has it.
Value dtype_and_sizes(const Tensor& tensor);

// The shortest decimal that is this fp32: 1e-5f as 1e-5, as a contract has it.
double decimal(float value);

// Calls within an Autocast region of the recipe; outside of one without.
template <typename F>
void with_recipe(const std::optional<te::Recipe>& recipe, F&& body) {
  if (!recipe) return body();
  te::Autocast autocast(*recipe);
  body();
}

AdapterResult run_grouped_linear(const AdapterCall& call);
AdapterResult run_layernorm_linear(const AdapterCall& call);
AdapterResult run_layernorm_mlp(const AdapterCall& call);
AdapterResult run_cross_entropy(const AdapterCall& call);
AdapterResult run_fused_activation(const AdapterCall& call);
AdapterResult run_layernorm(const AdapterCall& call);
AdapterResult run_linear(const AdapterCall& call);
AdapterResult run_dot_product_attention(const AdapterCall& call);
AdapterResult run_multihead_attention(const AdapterCall& call);
AdapterResult run_transformer_layer(const AdapterCall& call);
AdapterResult run_router(const AdapterCall& call);
AdapterResult run_permutation(const AdapterCall& call);
AdapterResult run_fuser_ops(const AdapterCall& call);
AdapterResult run_quantization(const AdapterCall& call);
AdapterResult run_fused_optimizer(const AdapterCall& call);
AdapterResult run_multi_tensor(const AdapterCall& call);
AdapterResult run_tp_linear(const AdapterCall& call);
AdapterResult run_ep_all_to_all(const AdapterCall& call);
AdapterResult run_recompute(const AdapterCall& call);
AdapterResult run_rmsnorm(const AdapterCall& call);
AdapterResult run_rope(const AdapterCall& call);
AdapterResult run_softmax(const AdapterCall& call);

}  // namespace assay::conform
