// The parameters of several equal layers: one for each, or one for all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "assay/te/modules/module.h"

namespace assay::te {

class GroupedParameters {
 public:
  using Add = std::function<Parameter&(std::string, Parameter)>;
  // `values`: one tensor a group, of one shape. Adds name + "0", name + "1" ...
  // or, `stacked`, `name` with the groups as its first dimension; `mark` sets
  // what else there is to a parameter.
  GroupedParameters(const Add& add, const std::string& name,
                    const std::vector<Tensor>& values, bool stacked,
                    const std::function<void(Parameter&)>& mark);

  // Of one group: its own, or a stand-in for its part of the stacked one.
  Parameter& operator[](std::size_t group) { return *groups_[group]; }
  bool stacked() const { return whole_ != nullptr; }

  // Stand-ins share the memory of the stacked one: values before a forward;
  // gradients (main_grad where `fuse` and there is one) before something is
  // added to them, and what happened to them after.
  void attach_values();
  void attach_gradients(bool fuse);
  void detach_gradients();

  // Of a state dict: the other layout of prefix + name into this one.
  void adapt(const std::string& prefix, StateMap& state) const;

 private:
  Tensor part(const Tensor& whole, std::size_t group) const;

  std::string name_;
  Parameter* whole_ = nullptr;
  std::vector<std::unique_ptr<Parameter>> stand_ins_;
  std::vector<Parameter*> groups_;
};

}  // namespace assay::te
