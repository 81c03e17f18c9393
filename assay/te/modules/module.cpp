#include "assay/te/modules/module.h"

#include <cstring>
#include <map>
#include <set>

#include "assay/te/check.h"

namespace assay::te {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  if (prefix.empty()) return name;
  return name.empty() ? prefix : prefix + "." + name;
}

void add_direction(const std::string& prefix, const QuantizedData& q,
                   std::vector<NamedTensor>& out) {
  const std::string side = q.columnwise ? "._columnwise_" : "._rowwise_";
  out.push_back({prefix + side + "data", q.data});
  if (q.scale_inv.view.data)
    out.push_back({prefix + side + "scale_inv", q.scale_inv});
  if (q.amax.view.data) out.push_back({prefix + side + "amax", q.amax});
}

void add_values(const std::string& name, const Parameter& p,
                std::vector<NamedTensor>& out) {
  if (p.value) {
    out.push_back({name, *p.value});
    return;
  }
  if (p.quantized->rowwise) add_direction(name, *p.quantized->rowwise, out);
  if (p.quantized->columnwise)
    add_direction(name, *p.quantized->columnwise, out);
}

// A loaded tensor is copied over one that is there.
void copy_bytes(const Tensor& from, Tensor& to) {
  const Tensor source = contiguous(from);
  const auto bytes = source.view.bytes();
  if (!bytes.empty())
    std::memcpy(to.mutable_data(), bytes.data(), bytes.size());
}

constexpr std::string_view kExtra = "_extra_state.";

}  // namespace

Module::Module(std::string type, std::string name)
    : type_(std::move(type)), name_(name.empty() ? type_ : std::move(name)) {}

Parameter& Module::add_parameter(std::string name, Parameter parameter) {
  parameters_.emplace_back(std::move(name),
                           std::make_unique<Parameter>(std::move(parameter)));
  return *parameters_.back().second;
}

void Module::add_child(std::string name, Module& child) {
  children_.emplace_back(std::move(name), &child);
}

std::vector<NamedModule> Module::modules() {
  std::vector<NamedModule> out = {{"", this}};
  for (const auto& [name, child] : children_)
    for (const NamedModule& below : child->modules())
      out.push_back({join(name, below.name), below.module});
  return out;
}

std::vector<NamedParameter> Module::parameters() {
  std::vector<NamedParameter> out;
  for (const NamedModule& m : modules())
    for (const auto& [name, parameter] : m.module->parameters_)
      out.push_back({join(m.name, name), parameter.get()});
  return out;
}

void Module::name_tree(const std::string& prefix) {
  for (const NamedModule& m : modules()) {
    const std::string path = join(prefix, m.name);
    if (!path.empty()) m.module->set_name(path);
  }
}

Parameter& Module::parameter(std::string_view name) {
  std::string known;
  for (const auto& [local, parameter] : parameters_) {
    if (local == name) return *parameter;
    known += (known.empty() ? "" : ", ") + local;
  }
  std::string quoted = "\"";
  quoted.append(name).append("\"");
  fail(name_, "parameter", quoted, "one of " + known);
}

void Module::zero_grad() {
  for (const NamedParameter& p : parameters()) {
    p.parameter->grad.reset();
    p.parameter->grad_added_to_main_grad = false;
    if (Tensor* main =
            p.parameter->main_grad ? &*p.parameter->main_grad : nullptr)
      std::memset(main->mutable_data(), 0, main->view.bytes().size());
  }
}

void Module::backward_dw() {
  for (const NamedModule& m : modules()) m.module->own_backward_dw();
}

void Module::check_extra_state(std::span<const NamedTensor> state) const {
  require(state.empty(), name_, "extra state",
          state.empty() ? "" : state.front().name, "no extra state");
}

std::vector<NamedTensor> Module::state_dict() {
  std::vector<NamedTensor> out;
  for (const NamedModule& m : modules()) {
    for (const auto& [name, parameter] : m.module->parameters_)
      add_values(join(m.name, name), *parameter, out);
    for (NamedTensor& t : m.module->extra_state())
      out.push_back({join(m.name, t.name), std::move(t.tensor)});
  }
  return out;
}

void Module::load_state_dict(std::span<const NamedTensor> state) {
  constexpr const char* kOp = "load_state_dict";
  StateMap given;
  for (const NamedTensor& t : state)
    require(given.emplace(t.name, t.tensor).second, kOp, t.name, "twice",
            "one tensor of a name");
  for (const NamedModule& m : modules())
    m.module->adapt_state(m.name.empty() ? "" : m.name + ".", given);

  std::vector<std::pair<Tensor, Tensor>> copies;
  std::vector<std::pair<Module*, std::vector<NamedTensor>>> extras;
  for (const NamedModule& m : modules()) {
    std::vector<NamedTensor> own;
    for (const auto& [name, parameter] : m.module->parameters_)
      add_values(join(m.name, name), *parameter, own);
    for (NamedTensor& to : own) {
      const auto found = given.find(to.name);
      require(found != given.end(), kOp, to.name, "missing", "a tensor");
      require_dtype(kOp, to.name, found->second, {to.tensor.dtype()});
      require_shape(kOp, to.name, found->second, to.tensor.shape());
      copies.emplace_back(to.tensor, found->second);
      given.erase(found);
    }
    std::vector<NamedTensor> extra;
    const std::string prefix = join(m.name, std::string(kExtra));
    for (auto it = given.lower_bound(prefix);
         it != given.end() && it->first.starts_with(prefix);) {
      extra.push_back(
          {std::string(kExtra) + it->first.substr(prefix.size()), it->second});
      it = given.erase(it);
    }
    m.module->check_extra_state(extra);
    if (!extra.empty()) extras.emplace_back(m.module, std::move(extra));
  }
  require(given.empty(), kOp, given.empty() ? "" : given.begin()->first,
          "unexpected", "names of this model");
  for (auto& [module, extra] : extras) module->load_extra_state(extra);
  for (auto& [to, from] : copies) copy_bytes(from, to);
  for (const NamedModule& m : modules()) m.module->on_loaded();
}

void visit_tensors(const QuantizedTensor& quantized,
                   const TensorVisitor& visit) {
  for (const auto* side : {&quantized.rowwise, &quantized.columnwise}) {
    if (!*side) continue;
    visit((*side)->data);
    if ((*side)->scale_inv.view.data) visit((*side)->scale_inv);
    if ((*side)->amax.view.data) visit((*side)->amax);
  }
}

}  // namespace assay::te
