#include "assay/conform/engine/engine.h"

#include <fmt/format.h>

#include <cstring>
#include <string>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

Value text_of(DType dtype) { return std::string(traits(dtype).name); }

Value sizes_of(const Shape& shape) {
  List sizes;
  for (const std::int64_t size : shape) sizes.emplace_back(size);
  return sizes;
}

void copy_into(const std::string& name, te::Parameter& parameter,
               const Tensor& given) {
  const Tensor source = contiguous(given);
  Tensor& target = *parameter.value;
  if (source.dtype() != target.dtype() || source.shape() != target.shape())
    throw Error(Code::kUsage, fmt::format("input {}: {} {}, expected {} {}",
                                          name, traits(source.dtype()).name,
                                          assay::to_string(source.shape()),
                                          traits(target.dtype()).name,
                                          assay::to_string(target.shape())));
  const auto bytes = source.view.bytes();
  if (!bytes.empty())
    std::memcpy(target.mutable_data(), bytes.data(), bytes.size());
}

}  // namespace

void load_parameters(te::Module& module, const AdapterCall& call) {
  for (const te::NamedParameter& p : module.parameters())
    copy_into(p.name, *p.parameter, call.input(p.name));
}

void put_gradients(AdapterResult& result, te::Module& module) {
  for (const te::NamedParameter& p : module.parameters())
    if (p.parameter->grad)
      result.outputs["grad." + p.name] = *p.parameter->grad;
}

void put_state_dict(AdapterResult& result, te::Module& module) {
  Object names;
  for (const te::NamedTensor& entry : module.state_dict())
    names[entry.name] = dtype_and_sizes(entry.tensor);
  result.contract["state_dict"] = std::move(names);
}

void put_step(AdapterResult& result, const AdapterCall& call, int step,
              const std::string& name, const Tensor& tensor) {
  result
      .outputs[call.steps == 1 ? name : fmt::format("{}.step{}", name, step)] =
      tensor;
}

Value dtype_and_sizes(const Tensor& tensor) {
  return List{text_of(tensor.dtype()), sizes_of(tensor.shape())};
}

Tensor snapshot(const Tensor& tensor) {
  Tensor copy = Tensor::empty(tensor.dtype(), tensor.shape(), tensor.device);
  if (tensor.numel() > 0)
    gather(tensor.view, 0, tensor.numel(), copy.mutable_data());
  return copy;
}

Tensor entry(const Tensor& x, std::int64_t index) {
  Tensor part = x;
  part.view.shape.erase(part.view.shape.begin());
  std::int64_t step = part.view.numel();
  if (!x.view.strides.empty()) {
    step = x.view.strides.front();
    part.view.strides.erase(part.view.strides.begin());
  }
  part.view.data += index * step * traits(x.dtype()).bits / 8;
  return part;
}

Tensor raw_bytes(const Tensor& codes) {
  Tensor bytes = codes;
  bytes.view.dtype = DType::kU8;
  if (!codes.shape().empty())
    bytes.view.shape.back() =
        codes.shape().back() * traits(codes.dtype()).bits / 8;
  return bytes;
}

double decimal(float value) { return std::stod(fmt::format("{}", value)); }

std::span<const Adapter> engine_adapters() {
  static const Adapter kAdapters[] = {
      {"grouped_linear",
       1,
       {"transformer_engine.pytorch.GroupedLinear"},
       run_grouped_linear},
      {"layernorm_linear",
       1,
       {"transformer_engine.pytorch.LayerNormLinear"},
       run_layernorm_linear},
      {"layernorm_mlp",
       1,
       {"transformer_engine.pytorch.LayerNormMLP"},
       run_layernorm_mlp},
      {"linear", 2, {"transformer_engine.pytorch.Linear"}, run_linear},
      {"transformer_layer",
       1,
       {"transformer_engine.pytorch.TransformerLayer"},
       run_transformer_layer},
      {"cross_entropy",
       1,
       {"transformer_engine.pytorch.parallel_cross_entropy"},
       run_cross_entropy},
      {"fused_activation",
       1,
       {"transformer_engine.pytorch.ops.GELU",
        "transformer_engine.pytorch.ops.SwiGLU",
        "transformer_engine.pytorch.ops.ClampedSwiGLU",
        "transformer_engine.pytorch.ops.ScaledSwiGLU",
        "transformer_engine_torch.gelu",
        "transformer_engine_torch.dbias_dgelu"},
       run_fused_activation},
      {"layernorm", 1, {"transformer_engine.pytorch.LayerNorm"}, run_layernorm},
      {"dot_product_attention",
       1,
       {"transformer_engine.pytorch.DotProductAttention"},
       run_dot_product_attention},
      {"multihead_attention",
       1,
       {"transformer_engine.pytorch.MultiheadAttention"},
       run_multihead_attention},
      {"quantization",
       1,
       {"transformer_engine.pytorch.Float8Quantizer",
        "transformer_engine.pytorch.Float8CurrentScalingQuantizer",
        "transformer_engine.pytorch.Float8BlockQuantizer",
        "transformer_engine.pytorch.MXFP8Quantizer",
        "transformer_engine.pytorch.NVFP4Quantizer",
        "transformer_engine.pytorch.DType",
        "transformer_engine.common.recipe.Format",
        "transformer_engine.common.recipe.DelayedScaling",
        "transformer_engine.common.recipe.Float8CurrentScaling",
        "transformer_engine.common.recipe.Float8BlockScaling",
        "transformer_engine.common.recipe.MXFP8BlockScaling",
        "transformer_engine.common.recipe.NVFP4BlockScaling",
        "transformer_engine.common.recipe.CustomRecipe"},
       run_quantization},
      {"fuser_ops",
       1,
       {"transformer_engine.pytorch.ops.Sequential",
        "transformer_engine.pytorch.ops.Linear",
        "transformer_engine.pytorch.ops.BasicLinear"},
       run_fuser_ops},
      {"router",
       1,
       {"transformer_engine.pytorch.router.fused_topk_with_score_function",
        "transformer_engine.pytorch.router.fused_compute_score_for_moe_aux_"
        "loss",
        "transformer_engine.pytorch.router.fused_moe_aux_loss"},
       run_router},
      {"permutation",
       1,
       {"transformer_engine.pytorch.moe_permute",
        "transformer_engine.pytorch.moe_permute_with_probs",
        "transformer_engine.pytorch.moe_permute_and_pad_with_probs",
        "transformer_engine.pytorch.moe_unpermute",
        "transformer_engine.pytorch.moe_sort_chunks_by_index",
        "transformer_engine.pytorch.moe_sort_chunks_by_index_with_probs"},
       run_permutation},
      {"fused_optimizer",
       1,
       {"transformer_engine.pytorch.optimizers.FusedAdam",
        "transformer_engine.pytorch.optimizers.FusedSGD"},
       run_fused_optimizer},
      {"multi_tensor",
       1,
       {"transformer_engine.pytorch.optimizers.multi_tensor_applier",
        "transformer_engine.pytorch.optimizers.multi_tensor_scale",
        "transformer_engine.pytorch.optimizers.multi_tensor_scale_tensor",
        "transformer_engine.pytorch.optimizers.multi_tensor_l2norm",
        "transformer_engine.pytorch.optimizers.multi_tensor_unscale_l2norm"},
       run_multi_tensor},
      {"tp_linear", 1, {"transformer_engine.pytorch.Linear"}, run_tp_linear},
      {"recompute",
       1,
       {"transformer_engine.pytorch.checkpoint"},
       run_recompute},
      {"rmsnorm", 1, {"transformer_engine.pytorch.RMSNorm"}, run_rmsnorm},
      {"rope",
       1,
       {"transformer_engine.pytorch.RotaryPositionEmbedding",
        "transformer_engine.pytorch.attention.rope.apply_rotary_pos_emb",
        "transformer_engine.pytorch.attention.rope."
        "apply_fused_qkv_rotary_pos_emb"},
       run_rope},
      {"softmax",
       1,
       {"transformer_engine.pytorch.attention.dot_product_attention.softmax."
        "FusedScaleMaskSoftmax",
        "transformer_engine_torch.scaled_softmax_forward",
        "transformer_engine_torch.scaled_masked_softmax_forward",
        "transformer_engine_torch.scaled_upper_triang_masked_softmax_forward",
        "transformer_engine_torch.scaled_aligned_causal_masked_softmax_"
        "forward"},
       run_softmax},
      {"ep_all_to_all",
       1,
       {"transformer_engine.pytorch.ep.ep_prepare",
        "transformer_engine.pytorch.ep.ep_dispatch",
        "transformer_engine.pytorch.ep.ep_combine"},
       run_ep_all_to_all},
  };
  return kAdapters;
}

const Adapter* find_adapter(std::string_view module) {
  for (const Adapter& adapter : engine_adapters())
    if (adapter.module == module) return &adapter;
  return nullptr;
}

}  // namespace assay::conform
