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
  static constexpr Adapter kAdapters[] = {
      {"cross_entropy", 1, run_cross_entropy},
      {"dot_product_attention", 1, run_dot_product_attention},
      {"ep_all_to_all", 1, run_ep_all_to_all},
      {"fused_activation", 1, run_fused_activation},
      {"fused_optimizer", 1, run_fused_optimizer},
      {"fuser_ops", 1, run_fuser_ops},
      {"grouped_linear", 1, run_grouped_linear},
      {"layernorm", 1, run_layernorm},
      {"layernorm_linear", 1, run_layernorm_linear},
      {"layernorm_mlp", 1, run_layernorm_mlp},
      {"linear", 2, run_linear},
      {"multi_tensor", 1, run_multi_tensor},
      {"multihead_attention", 1, run_multihead_attention},
      {"permutation", 1, run_permutation},
      {"quantization", 1, run_quantization},
      {"recompute", 1, run_recompute},
      {"rmsnorm", 1, run_rmsnorm},
      {"rope", 1, run_rope},
      {"router", 1, run_router},
      {"softmax", 1, run_softmax},
      {"tp_linear", 1, run_tp_linear},
      {"transformer_layer", 1, run_transformer_layer},
  };
  return kAdapters;
}

const Adapter* find_adapter(std::string_view module) {
  for (const Adapter& adapter : engine_adapters())
    if (adapter.module == module) return &adapter;
  return nullptr;
}

}  // namespace assay::conform
