#include "assay/te/optim/optimizer.h"

#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "assay/kernels/optim.h"
#include "assay/te/check.h"
#include "assay/te/optim/in_place.h"
#include "assay/te/optim/multi_tensor.h"
#include "assay/te/quantize/update.h"

namespace assay::te {
namespace {

constexpr std::string_view kMaster = "master_param";

void copy_into(Tensor& to, const Tensor& from_in) {
  const Tensor from = contiguous(from_in);
  const auto bytes = from.view.bytes();
  if (!bytes.empty())
    std::memcpy(to.mutable_data(), bytes.data(), bytes.size());
}

// A copy in fp32, with memory of its own.
Tensor widened(std::string_view op, const Tensor& from_in) {
  Tensor from = contiguous(from_in);
  Tensor out = Tensor::empty(DType::kF32, from.shape(), from.device);
  const std::vector<Tensor> inputs = {from};
  std::vector<Tensor> outputs = {out};
  require_high_precision(op, "values", from);
  multi_tensor_scale(inputs, outputs, 1.0f);
  return out;
}

void require_parameter(std::string_view op, const OptimizerParameter& p) {
  require(!p.name.empty(), op, "parameters", "one without a name", "a name");
  if (p.quantized == nullptr) {
    require_high_precision(op, p.name, p.value);
    require_writable(op, p.name, p.value);
    return;
  }
  require(p.quantizer != nullptr && p.quantizer() != nullptr, op, p.name,
          "quantised, without a quantiser",
          "the quantiser that makes its codes");
  require(p.value.view.data == nullptr, op, p.name,
          "both plain and quantised values", "one of them");
  if (p.high_precision_init)
    require_shape(op, p.name, *p.high_precision_init, p.quantized->shape);
}

// A parameter under two names would be updated twice a step.
void require_alone(std::string_view op, const OptimizerParameter& p,
                   std::map<const void*, std::string>& values) {
  const void* own = p.value.view.data;
  if (p.quantized != nullptr) own = p.quantized.get();
  if (p.quantized == nullptr && p.value.numel() == 0) return;
  const auto [other, added] = values.emplace(own, p.name);
  require(added, op, p.name, "the values of " + other->second,
          "every parameter once");
}

// Codes of the new master; the tensor stays one of the parameter's dtype.
void write_quantized(OptimizerParameter& p, const Tensor& master) {
  const DType dtype = p.quantized->dtype;
  update_quantized(*p.quantizer(), master, *p.quantized);
  p.quantized->dtype = dtype;
}

}  // namespace

Optimizer::State* Optimizer::Slot::find(std::string_view name) {
  for (State& state : states)
    if (state.name == name) return &state;
  return nullptr;
}

const Shape& Optimizer::Slot::shape() const {
  return is_quantized() ? parameter.quantized->shape : parameter.value.shape();
}

Device Optimizer::Slot::device() const {
  return is_quantized() ? parameter.quantized->device : parameter.value.device;
}

bool Optimizer::Slot::splits() const {
  for (const State& state : states)
    if (state.name == kMaster) return state.data.dtype() == DType::kI16;
  return false;
}

std::vector<ParameterGroup> one_group(
    std::vector<OptimizerParameter> parameters) {
  std::vector<ParameterGroup> groups(1);
  groups[0].parameters = std::move(parameters);
  return groups;
}

Optimizer::Optimizer(std::string name, std::vector<ParameterGroup> groups,
                     double lr, double weight_decay, const Masters& masters)
    : name_(std::move(name)),
      groups_(std::move(groups)),
      lr_(lr),
      weight_decay_(weight_decay) {
  require_value(std::isfinite(lr), name_, "lr", lr, "a finite number");
  require_value(std::isfinite(weight_decay), name_, "weight_decay",
                weight_decay, "a finite number");
  std::set<std::string> names;
  std::map<const void*, std::string> values;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const OptimizerParameter& p : groups_[g].parameters) {
      require_parameter(name_, p);
      require(names.insert(p.name).second, name_, p.name, "twice",
              "one parameter of a name");
      require_alone(name_, p, values);
      slots_.push_back({p, g, {}});
      add_master(slots_.back(), masters);
    }
  }
}

void Optimizer::add_master(Slot& slot, const Masters& masters) {
  const OptimizerParameter& p = slot.parameter;
  if (!masters.wanted) {
    require(!slot.is_quantized(), name_, p.name, "quantised",
            "master_weights for a quantised parameter");
    return;
  }
  if (!slot.is_quantized() && p.value.dtype() == DType::kF32) return;
  if (masters.remainders && !slot.is_quantized() &&
      p.value.dtype() == DType::kBF16) {
    require_contiguous(name_, p.name, p.value);
    slot.states.push_back(
        {std::string(kMaster),
         Tensor::zeros(DType::kI16, slot.shape(), slot.device()),
         {}});
    return;
  }
  Tensor values = !slot.is_quantized() ? widened(name_, p.value)
                  : p.high_precision_init
                      ? widened(name_, *p.high_precision_init)
                      : dequantize(*p.quantized, DType::kF32);
  State state = zero_state(slot, std::string(kMaster), masters.dtype);
  if (state.scaled())
    store_scaled_state(values, state.data, state.scale);
  else
    state.data = std::move(values);
  slot.states.push_back(std::move(state));
}

Optimizer::State Optimizer::zero_state(const Slot& slot, std::string name,
                                       DType dtype) {
  State state{
      std::move(name), Tensor::zeros(dtype, slot.shape(), slot.device()), {}};
  if (dtype == DType::kF16 || dtype == DType::kE4M3FN)
    state.scale = Tensor::zeros(DType::kF32, {1}, slot.device());
  return state;
}

void Optimizer::check_grads(std::span<Tensor> grads) const {
  require(grads.size() == slots_.size(), name_, "grads",
          std::to_string(grads.size()) + " tensors",
          std::to_string(slots_.size()) + ", one a parameter");
  for (std::size_t i = 0; i < grads.size(); ++i) {
    const std::string what = "gradient of " + slots_[i].parameter.name;
    require_high_precision(name_, what, grads[i]);
    require_shape(name_, what, grads[i], slots_[i].shape());
    require_device(name_, slots_[i].device(), grads[i]);
  }
}

bool Optimizer::step(std::span<Tensor> grads, const StepOptions& options) {
  check_grads(grads);
  if (options.found_inf != nullptr &&
      scalar_value(name_, "found_inf", *options.found_inf) != 0)
    return false;
  require_value(std::isfinite(options.inv_scale), name_, "inv_scale",
                static_cast<double>(options.inv_scale), "a finite number");
  if (options.inv_scale != 1) {
    const std::vector<Tensor> inputs(grads.begin(), grads.end());
    multi_tensor_scale(inputs, grads, options.inv_scale);
  }
  update(grads, step_count_ + 1);
  ++step_count_;
  for (Slot& slot : slots_) {
    if (!slot.is_quantized()) continue;
    State& master = *slot.find(kMaster);
    write_quantized(slot.parameter,
                    WorkingState(master.data, master.scale).tensor());
  }
  return true;
}

double Optimizer::lr(std::size_t group) const {
  return groups_.at(group).lr.value_or(lr_);
}

double Optimizer::weight_decay(std::size_t group) const {
  return groups_.at(group).weight_decay.value_or(weight_decay_);
}

void Optimizer::set_lr(double lr) {
  require_value(std::isfinite(lr), name_, "lr", lr, "a finite number");
  lr_ = lr;
  for (ParameterGroup& group : groups_) group.lr = lr * group.lr_mult;
}

void Optimizer::set_weight_decay(double weight_decay) {
  require_value(std::isfinite(weight_decay), name_, "weight_decay",
                weight_decay, "a finite number");
  weight_decay_ = weight_decay;
  for (ParameterGroup& group : groups_)
    group.weight_decay = weight_decay * group.wd_mult;
}

std::vector<NamedTensor> Optimizer::state_dict() {
  Tensor step = Tensor::empty(DType::kI64, {1});
  *step.mutable_data<std::int64_t>() = step_count_;
  std::vector<NamedTensor> out = {{"step", step}};
  for (const Slot& slot : slots_) {
    for (const State& state : slot.states) {
      const std::string name = slot.parameter.name + "." + state.name;
      out.push_back({name, state.data});
      if (state.scaled()) out.push_back({name + ".scale", state.scale});
    }
  }
  return out;
}

void Optimizer::load_state_dict(std::span<const NamedTensor> state) {
  std::map<std::string, const Tensor*> given;
  for (const NamedTensor& t : state)
    require(given.emplace(t.name, &t.tensor).second, name_, t.name, "twice",
            "one tensor of a name");
  std::vector<std::pair<Tensor, const Tensor*>> copies;
  for (NamedTensor& own : state_dict()) {
    const auto found = given.find(own.name);
    require(found != given.end(), name_, own.name, "missing", "a tensor");
    require_dtype(name_, own.name, *found->second, {own.tensor.dtype()});
    require_shape(name_, own.name, *found->second, own.tensor.shape());
    copies.emplace_back(own.tensor, found->second);
    given.erase(found);
  }
  require(given.empty(), name_, given.empty() ? "" : given.begin()->first,
          "unexpected", "states of this optimizer");
  const auto step = contiguous(*copies.front().second);
  const std::int64_t count = *step.data<std::int64_t>();
  require(count >= 0, name_, "step", std::to_string(count), ">= 0");
  for (auto& [to, from] : copies) copy_into(to, *from);
  step_count_ = count;
}

Optimizer::Slot& Optimizer::slot_of(const std::string& parameter,
                                    const std::string& state) {
  for (Slot& slot : slots_) {
    if (slot.parameter.name != parameter) continue;
    require(slot.find(state) != nullptr, name_, parameter,
            "no state \"" + state + "\"", "a state that it has");
    return slot;
  }
  fail(name_, "parameter", "\"" + parameter + "\"", "one that it was given");
}

Tensor Optimizer::unscaled_state(const std::string& parameter,
                                 const std::string& name) {
  Slot& slot = slot_of(parameter, name);
  State& state = *slot.find(name);
  if (state.scaled()) return scaled_state_values(state.data, state.scale);
  if (name != kMaster || !slot.splits()) return widened(name_, state.data);
  Tensor out = Tensor::empty(DType::kF32, slot.shape(), slot.device());
  optim_kernels(slot.device())
      .join(slot.parameter.value.data<std::uint16_t>(),
            state.data.data<std::int16_t>(), out.numel(),
            out.mutable_data<float>());
  return out;
}

void Optimizer::set_scaled_state(const std::string& parameter,
                                 const std::string& name,
                                 const Tensor& values) {
  Slot& slot = slot_of(parameter, name);
  State& state = *slot.find(name);
  require_shape(name_, parameter + "." + name, values, slot.shape());
  require_device(name_, slot.device(), values);
  const Tensor f32 = widened(name_, values);
  if (state.scaled()) return store_scaled_state(f32, state.data, state.scale);
  if (name == kMaster && slot.splits()) {
    optim_kernels(slot.device())
        .split(f32.data<float>(), f32.numel(),
               slot.parameter.value.mutable_data<std::uint16_t>(),
               state.data.mutable_data<std::int16_t>());
    return;
  }
  std::vector<Tensor> to = {state.data};
  const std::vector<Tensor> from = {f32};
  multi_tensor_scale(from, to, 1.0f);
}

WorkingState::WorkingState(Tensor& data, Tensor& scale)
    : data_(&data), scale_(scale.view.data != nullptr ? &scale : nullptr) {
  if (scale_ != nullptr) values_ = scaled_state_values(data, scale);
}

void WorkingState::commit() {
  if (scale_ != nullptr) store_scaled_state(values_, *data_, *scale_);
}

}  // namespace assay::te
