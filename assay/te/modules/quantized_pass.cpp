// One pass of a module under the scope it runs in.
#include "assay/te/check.h"
#include "assay/te/modules/quantized_module.h"
#include "assay/te/modules/recompute.h"
#include "assay/te/quantize/delayed.h"

namespace assay::te {

QuantizedPass::QuantizedPass(QuantizedModule& module, bool training)
    : training_(training) {
  const AutocastState& scope = autocast_state();
  if (!scope.enabled && !scope.calibrating) return;
  calibrating_ = scope.calibrating;
  region_ = scope.region;
  if (recomputing()) {
    restore(module, *scope.recipe);
  } else {
    module.init_quantizers(scope.recipe);
    states_ = module.quantizer_states();
    if (training && scope.enabled) {
      first_ = region_->empty();
      region_->add({states_->forward, states_->backward, scope.amax_reduction});
    }
  }
  stash(module);
}

void QuantizedPass::restore(const QuantizedModule& module,
                            const Recipe& recipe) {
  RecomputePoint::Stash* found = nullptr;
  for (const ActiveRecompute& active : active_recomputes()) {
    if (active.phase == RecomputePhase::kSecond)
      found = active.point->find(module, recipe);
  }
  require(found != nullptr, "recompute", module.name(),
          "not run in the first pass, or under another recipe",
          "the modules and recipes of the first pass");
  states_ = found->states;
  first_ = found->first_in_region;
  for (std::size_t i = 0; i < found->histories.size(); ++i) {
    DelayedScalingState& state = *states_->forward->delayed[i].state;
    histories_of_now_.push_back(state);
    state = found->histories[i].copy();
  }
}

void QuantizedPass::stash(const QuantizedModule& module) const {
  for (const ActiveRecompute& active : active_recomputes()) {
    // The first call of a pass decides: scales do not change within it.
    if (active.phase != RecomputePhase::kFirst ||
        active.point->find(module, *states_->recipe))
      continue;
    RecomputePoint::Stash stash{&module, states_, {}, first_};
    for (const DelayedGroup& group : states_->forward->delayed)
      stash.histories.push_back(group.state->copy());
    active.point->add(std::move(stash));
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
