// The base of every module: a name, parameters, children, and a state dict
// whose names are those of NVTE's modules in PyTorch.
//
// A module's forward takes what it computes with and, for training, a context
// that it fills; its backward takes the gradient of the output and that
// context, gives the gradient of the input, and adds the gradients of its
// parameters (Parameter). There is no tape: the caller runs backward in the
// reverse order of forward, once for each context. A null context is
// inference: nothing is kept.
//
// Modules are neither copied nor moved. A module, and all that share its
// parameters, belongs to one thread at a time.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/te/modules/named_tensor.h"
#include "assay/te/modules/parameter.h"

namespace assay::te {

class Module;

struct NamedParameter {
  std::string name;  // "self_attention.proj.weight"
  Parameter* parameter;
};

struct NamedModule {
  std::string name;  // "self_attention.proj"; "" for the module itself
  Module* module;
};

// A state dict on its way in, by full name.
using StateMap = std::map<std::string, Tensor>;

// Called with every tensor that a context holds, parameters excepted.
using TensorVisitor = std::function<void(const Tensor&)>;

class Module {
 public:
  // `type`: "Linear"; `name`: free text that messages show.
  Module(std::string type, std::string name);
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& type() const { return type_; }
  // The name, or the type where none was given.
  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }

  // Own ones first, in the order they were made, then the children's.
  std::vector<NamedParameter> parameters();
  // This one first, then children, depth first.
  std::vector<NamedModule> modules();
  // Gives this module and those below their dotted names, so that messages
  // and observers can tell layers apart.
  void name_tree(const std::string& prefix);

  // Own parameter by its local name; Error{kUsage} lists those there are.
  Parameter& parameter(std::string_view name);

  // grad becomes absent, main_grad zero.
  void zero_grad();

  // Parameters ("x.weight"; of a quantised one "x.weight._rowwise_data" ...)
  // and what modules keep besides (extra_state), sharing memory.
  std::vector<NamedTensor> state_dict();
  // Copies the tensors in. Throws Error{kUsage} and changes nothing where a
  // name is missing, unexpected or twice, or a shape or dtype differs.
  void load_state_dict(std::span<const NamedTensor> state);

  // The work that delay_wgrad_compute put off, of this module and those
  // below, oldest pass first.
  void backward_dw();
  virtual bool need_backward_dw() const { return false; }

  // Own state beside parameters, without a prefix. FP8 metadata:
  // "_extra_state.scale_fwd" ... (quantized_module.h).
  virtual std::vector<NamedTensor> extra_state() { return {}; }
  // Throws Error{kUsage} for what load_extra_state() cannot take; changes
  // nothing. `state` is what begins with "_extra_state.", maybe nothing.
  virtual void check_extra_state(std::span<const NamedTensor> state) const;
  // Takes what check_extra_state() has let pass.
  virtual void load_extra_state(std::span<const NamedTensor>) {}
  // Called by load_state_dict before names are matched: a module whose
  // parameters are known in several layouts replaces what is there in another
  // by its own. `prefix`: "" or with a dot behind. Leaves what does not fit.
  virtual void adapt_state(const std::string& prefix, StateMap& state) {
    static_cast<void>(prefix), static_cast<void>(state);
  }

 protected:
  Parameter& add_parameter(std::string name, Parameter parameter);
  // A child outlives this module's use of it: usually a member.
  void add_child(std::string name, Module& child);
  // Containers whose order changes add them all again.
  void clear_children() { children_.clear(); }
  virtual void own_backward_dw() {}
  // After load_state_dict: what was derived from the old values is void.
  virtual void on_loaded() {}

 private:
  std::string type_, name_;
  std::vector<std::pair<std::string, std::unique_ptr<Parameter>>> parameters_;
  std::vector<std::pair<std::string, Module*>> children_;
};

// Bytes of the distinct memory blocks behind what a context holds: of each
// from the first to the last byte that one of its tensors shows.
template <typename Context>
std::int64_t saved_bytes(const Context& context) {
  std::map<const void*, std::pair<const std::byte*, const std::byte*>> blocks;
  context.visit_tensors([&](const Tensor& t) {
    const auto bytes = t.view.bytes();
    const std::byte *begin = bytes.data(), *end = begin + bytes.size();
    auto [block, added] = blocks.try_emplace(t.owner.get(), begin, end);
    if (added) return;
    block->second.first = std::min(block->second.first, begin);
    block->second.second = std::max(block->second.second, end);
  });
  std::int64_t total = 0;
  for (const auto& [owner, range] : blocks) total += range.second - range.first;
  return total;
}

void visit_tensors(const QuantizedTensor& quantized,
                   const TensorVisitor& visit);

}  // namespace assay::te
