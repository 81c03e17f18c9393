#include "assay/te/modules/grouped_parameters.h"

#include <utility>

#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/split.h"

namespace assay::te {
namespace {

Tensor with_first_dims(Tensor t, const Shape& first) {
  Shape shape = first;
  shape.insert(shape.end(), t.shape().begin() + 1, t.shape().end());
  t.view.shape = std::move(shape);
  t.view.strides.clear();
  return t;
}

// [n, ...] of each to [groups, n, ...].
Tensor stack(const std::vector<Tensor>& values) {
  const std::int64_t n = values[0].shape()[0];
  return with_first_dims(concatenate(values, 0),
                         {static_cast<std::int64_t>(values.size()), n});
}

Tensor unstacked(const Tensor& whole, std::size_t group) {
  Tensor part = row_view(whole, static_cast<std::int64_t>(group), 1);
  part.view.shape.erase(part.view.shape.begin());
  part.view.strides.clear();
  return part;
}

}  // namespace

GroupedParameters::GroupedParameters(
    const Add& add, const std::string& name, const std::vector<Tensor>& values,
    bool stacked, const std::function<void(Parameter&)>& mark)
    : name_(name) {
  if (stacked) {
    whole_ = &add(name, make_parameter(stack(values)));
    mark(*whole_);
    // The groups come first.
    if (whole_->partition_dim >= 0) ++whole_->partition_dim;
  }
  for (std::size_t g = 0; g < values.size(); ++g) {
    if (stacked) {
      stand_ins_.push_back(
          std::make_unique<Parameter>(make_parameter(values[g])));
      groups_.push_back(stand_ins_.back().get());
    } else {
      groups_.push_back(
          &add(name + std::to_string(g), make_parameter(values[g])));
      mark(*groups_.back());
    }
  }
  attach_values();
}

Tensor GroupedParameters::part(const Tensor& whole, std::size_t group) const {
  return unstacked(whole, group);
}

void GroupedParameters::attach_values() {
  if (!whole_) return;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g]->value = part(*whole_->value, g);
    groups_[g]->requires_grad = whole_->requires_grad;
  }
}

void GroupedParameters::attach_gradients(bool fuse) {
  if (!whole_ || !whole_->requires_grad) return;
  const bool main = fuse && whole_->main_grad;
  if (!main && !whole_->grad)
    whole_->grad = Tensor::zeros(whole_->dtype, whole_->shape, whole_->device);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g]->grad.reset();
    groups_[g]->main_grad.reset();
    if (main) {
      groups_[g]->main_grad = part(*whole_->main_grad, g);
    } else {
      groups_[g]->grad = part(*whole_->grad, g);
    }
  }
}

void GroupedParameters::detach_gradients() {
  if (!whole_) return;
  for (Parameter* group : groups_) {
    whole_->grad_added_to_main_grad |= group->grad_added_to_main_grad;
    group->grad_added_to_main_grad = false;
    group->grad.reset();
    group->main_grad.reset();
  }
}

void GroupedParameters::adapt(const std::string& prefix,
                              StateMap& state) const {
  const std::string whole = prefix + name_;
  const auto group = [&](std::size_t g) { return whole + std::to_string(g); };
  if (!whole_) {
    const auto found = state.find(whole);
    if (found == state.end() || found->second.shape().empty()) return;
    const Tensor all = contiguous(found->second);
    if (all.shape()[0] != static_cast<std::int64_t>(groups_.size())) return;
    state.erase(found);
    for (std::size_t g = 0; g < groups_.size(); ++g)
      state.emplace(group(g), unstacked(all, g));
    return;
  }
  std::vector<Tensor> values;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto found = state.find(group(g));
    if (found == state.end()) return;
    const Tensor& value = found->second;
    const bool fits = value.dtype() == groups_[g]->dtype &&
                      value.shape() == groups_[g]->shape;
    if (!fits) return;
    values.push_back(value);
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) state.erase(group(g));
  state.emplace(whole, stack(values));
}

}  // namespace assay::te
