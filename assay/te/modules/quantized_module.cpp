#include "assay/te/modules/quantized_module.h"

#include <cstring>

#include "assay/te/check.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/quantize/delayed.h"

namespace assay::te {
namespace {

// Histories keep their maxima where the same recipe family goes on with other
// settings: NVTE adjusts the length and takes the new rules.
void carry_histories(const RecipeState& from, RecipeState& to) {
  if (from.delayed.size() != to.delayed.size()) return;
  for (std::size_t i = 0; i < to.delayed.size(); ++i) {
    const DelayedScalingState& old = *from.delayed[i].state;
    DelayedScalingState& fresh = *to.delayed[i].state;
    if (old.slots() != fresh.slots()) return;
    if (from.delayed[i].options.fp8_max != to.delayed[i].options.fp8_max)
      return;
    const std::int64_t length = fresh.length();
    fresh = old.copy();
    fresh.set_length(length);
  }
}

void add_histories(const RecipeState& state, const char* suffix,
                   std::vector<NamedTensor>& out) {
  for (std::size_t i = 0; i < state.delayed.size(); ++i) {
    const std::string n = i == 0 ? "" : "." + std::to_string(i);
    const DelayedScalingState& s = *state.delayed[i].state;
    out.push_back({std::string("_extra_state.scale_") + suffix + n, s.scale});
    out.push_back({std::string("_extra_state.amax_history_") + suffix + n,
                   s.amax_history});
  }
}

}  // namespace

QuantizedModule::QuantizedModule(std::string type, std::string name, int gemms,
                                 std::string module_type)
    : Module(std::move(type), std::move(name)),
      gemms_(gemms),
      module_type_(std::move(module_type)) {}

void QuantizedModule::reduce_amax_over_sequence(std::size_t gemm,
                                                ParallelMode mode,
                                                const TensorParallel& tp) {
  if (mode == ParallelMode::kNone || !tp.sequence_parallel || tp.size() == 1)
    return;
  reduction_ = group_amax_reduction(tp.group);
  if (mode == ParallelMode::kColumn) {
    reduced_forward_.push_back(3 * gemm);  // input
  } else {
    reduced_backward_.push_back(2 * gemm);  // grad_output
  }
}

void QuantizedModule::init_quantizers(std::shared_ptr<const Recipe> recipe) {
  if (states_ &&
      (states_->recipe == recipe || same_recipe(*states_->recipe, *recipe)))
    return;
  auto fresh = std::make_shared<QuantizerStates>();
  fresh->recipe = std::move(recipe);
  const auto make = [&](Direction direction,
                        const std::vector<std::size_t>& reduced) {
    return std::make_shared<RecipeState>(make_recipe_state(
        *fresh->recipe, gemm_roles(direction, gemms_, module_type_, name()),
        {.amax_reduction = reduced.empty() ? nullptr : reduction_,
         .reduced_slots = reduced}));
  };
  fresh->forward = make(Direction::kForward, reduced_forward_);
  fresh->backward = make(Direction::kBackward, reduced_backward_);
  if (states_) {
    carry_histories(*states_->forward, *fresh->forward);
    carry_histories(*states_->backward, *fresh->backward);
  }
  states_ = std::move(fresh);
  if (!pending_state_.empty()) load_into_states();
  on_new_quantizers();
}

std::vector<NamedTensor> QuantizedModule::extra_state() {
  if (!states_) return pending_state_;
  std::vector<NamedTensor> out;
  add_histories(*states_->forward, "fwd", out);
  add_histories(*states_->backward, "bwd", out);
  return out;
}

void QuantizedModule::load_extra_state(std::span<const NamedTensor> state) {
  pending_state_.assign(state.begin(), state.end());
  for (NamedTensor& t : pending_state_) {
    require_dtype(name(), t.name, t.tensor, {DType::kF32});
    // The caller's bytes may change or be a mapping that goes away.
    Tensor own = Tensor::empty(DType::kF32, t.tensor.shape());
    const Tensor from = contiguous(t.tensor);
    if (own.numel() > 0)
      std::memcpy(own.mutable_data(), from.view.data, from.view.bytes().size());
    t.tensor = std::move(own);
  }
  if (states_) load_into_states();
}

void QuantizedModule::load_into_states() {
  std::vector<NamedTensor> known;
  add_histories(*states_->forward, "fwd", known);
  add_histories(*states_->backward, "bwd", known);
  // A recipe without state ignores one that was saved, as NVTE does.
  if (known.empty()) {
    pending_state_.clear();
    return;
  }
  for (NamedTensor& to : known) {
    const NamedTensor* from = nullptr;
    for (const NamedTensor& t : pending_state_)
      if (t.name == to.name) from = &t;
    require(from != nullptr, name(), to.name, "missing", "FP8 metadata");
    require_shape(name(), to.name, from->tensor, to.tensor.shape());
    std::memcpy(to.tensor.mutable_data(), from->tensor.view.data,
                from->tensor.view.bytes().size());
  }
  require(pending_state_.size() == known.size(), name(), "extra state",
          std::to_string(pending_state_.size()) + " tensors",
          std::to_string(known.size()));
  pending_state_.clear();
}

QuantizedPass::QuantizedPass(QuantizedModule& module, bool training)
    : training_(training) {
  const AutocastState& scope = autocast_state();
  if (!scope.enabled && !scope.calibrating) return;
  module.init_quantizers(scope.recipe);
  states_ = module.quantizer_states();
  calibrating_ = scope.calibrating;
  region_ = scope.region;
  if (training && region_ && !recomputing()) {
    first_ = region_->empty();
    region_->add({states_->forward, states_->backward, scope.amax_reduction});
  }
  follow_recomputes();
}

void QuantizedPass::follow_recomputes() {
  for (const ActiveRecompute& active : active_recomputes()) {
    auto& stashes = active.point->stashes();
    if (active.phase == RecomputePhase::kFirst) {
      // The first call of a pass decides: scales do not change within it.
      auto [stash, added] = stashes.try_emplace(states_.get());
      if (!added) continue;
      stash->second.states = states_;
      stash->second.first_in_region = first_;
      for (const DelayedGroup& group : states_->forward->delayed)
        stash->second.histories.push_back(group.state->copy());
      continue;
    }
    const auto found = stashes.find(states_.get());
    require(found != stashes.end(), "recompute", "quantisers",
            "other than in the first pass", "the recipe of the first pass");
    first_ = found->second.first_in_region;
    const bool outermost = histories_of_now_.empty();
    for (std::size_t i = 0; i < found->second.histories.size(); ++i) {
      DelayedScalingState& state = *states_->forward->delayed[i].state;
      if (outermost) histories_of_now_.push_back(state);
      state = found->second.histories[i].copy();
    }
  }
}

QuantizedPass::~QuantizedPass() {
  // The maxima of a recomputation go with the copies.
  for (std::size_t i = 0; i < histories_of_now_.size(); ++i)
    *states_->forward->delayed[i].state = histories_of_now_[i];
}

BackwardOverride QuantizedPass::backward_override() const {
  return quantizing() ? te::backward_override(*states_->recipe)
                      : BackwardOverride::kNone;
}

Quantizer& QuantizedPass::forward(std::size_t slot) const {
  return states_->forward->at(slot);
}

void QuantizedPass::calibrate(std::size_t slot, const Tensor& x) const {
  if (auto* delayed = dynamic_cast<DelayedScalingQuantizer*>(&forward(slot)))
    delayed->calibrate(x);
}

std::function<void()> QuantizedPass::backward_finish() const {
  if (!first_ || !region_) return [] {};
  return [region = region_] { region->update_backward(); };
}

}  // namespace assay::te
