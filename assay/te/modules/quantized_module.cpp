#include "assay/te/modules/quantized_module.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/random_offsets.h"
#include "assay/te/parallel/collectives.h"

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

struct NamedHistory {
  std::string scale, history;
  DelayedScalingState* state;
};

std::vector<NamedHistory> histories_of(const QuantizerStates& states) {
  std::vector<NamedHistory> out;
  const auto add = [&](const RecipeState& direction, const char* suffix) {
    for (std::size_t i = 0; i < direction.delayed.size(); ++i) {
      const std::string name =
          suffix + (i == 0 ? std::string() : "." + std::to_string(i));
      out.push_back({"_extra_state.scale_" + name,
                     "_extra_state.amax_history_" + name,
                     direction.delayed[i].state.get()});
    }
  };
  add(*states.forward, "fwd");
  add(*states.backward, "bwd");
  return out;
}

const Tensor* find(std::span<const NamedTensor> state,
                   const std::string& name) {
  for (const NamedTensor& t : state)
    if (t.name == name) return &t.tensor;
  return nullptr;
}

void check_histories(const std::string& module,
                     const std::vector<NamedHistory>& histories,
                     std::span<const NamedTensor> state) {
  for (const NamedHistory& h : histories) {
    const Tensor* scale = find(state, h.scale);
    const Tensor* history = find(state, h.history);
    require(scale != nullptr, module, h.scale, "missing", "FP8 metadata");
    require(history != nullptr, module, h.history, "missing", "FP8 metadata");
    require_shape(module, h.scale, *scale, h.state->scale.shape());
    require_rank(module, h.history, *history, 2);
    require_shape(module, h.history, *history,
                  {history->shape()[0], h.state->slots()});
    require(history->shape()[0] > 0, module, h.history, "no rows",
            "1 row or more");
  }
  require(state.size() == 2 * histories.size(), module, "extra state",
          std::to_string(state.size()) + " tensors",
          std::to_string(2 * histories.size()));
}

struct ExtraState {
  std::vector<NamedTensor> histories;
  std::optional<NamedTensor> offsets_fwd, offsets_bwd;
};

ExtraState sorted(std::span<const NamedTensor> state) {
  ExtraState out;
  for (const NamedTensor& t : state) {
    if (t.name == kRandomOffsetForward) {
      out.offsets_fwd = t;
    } else if (t.name == kRandomOffsetBackward) {
      out.offsets_bwd = t;
    } else {
      out.histories.push_back(t);
    }
  }
  return out;
}

// Rows that `to` has more are zero, those that it has fewer are left out.
void copy_rows(const Tensor& from, Tensor& to) {
  const auto source = from.view.bytes();
  const std::size_t size = to.view.bytes().size();
  const std::size_t count = std::min(source.size(), size);
  std::memcpy(to.mutable_data(), source.data(), count);
  std::memset(to.mutable_data() + count, 0, size - count);
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
  if (!pending_state_.empty()) load_into(*fresh);
  states_ = std::move(fresh);
  on_new_quantizers();
}

std::vector<NamedTensor> QuantizedModule::extra_state() {
  if (!states_) return pending_state_;
  std::vector<NamedTensor> out;
  for (const NamedHistory& h : histories_of(*states_)) {
    out.push_back({h.scale, h.state->scale});
    out.push_back({h.history, h.state->amax_history});
  }
  for (const auto& [name, state] :
       {std::pair{kRandomOffsetForward, states_->forward.get()},
        std::pair{kRandomOffsetBackward, states_->backward.get()}})
    if (const auto offsets = random_offsets(*state))
      out.push_back({name, *offsets});
  return out;
}

void QuantizedModule::check_extra_state(
    std::span<const NamedTensor> state) const {
  const ExtraState extra = sorted(state);
  for (const NamedTensor& t : extra.histories) {
    require_dtype(name(), t.name, t.tensor, {DType::kF32});
    const bool known = t.name.starts_with("_extra_state.scale_") ||
                       t.name.starts_with("_extra_state.amax_history_");
    require(known, name(), t.name, "unexpected", "FP8 metadata");
  }
  if (!states_) return;
  // A recipe without histories ignores those that were saved, as NVTE does.
  const auto histories = histories_of(*states_);
  if (!histories.empty()) check_histories(name(), histories, extra.histories);
  check_random_offsets(*states_->forward, name(), extra.offsets_fwd);
  check_random_offsets(*states_->backward, name(), extra.offsets_bwd);
}

void QuantizedModule::load_extra_state(std::span<const NamedTensor> state) {
  check_extra_state(state);
  pending_state_.assign(state.begin(), state.end());
  for (NamedTensor& t : pending_state_) {
    // The caller's bytes may change or be a mapping that goes away.
    const Tensor from = contiguous(t.tensor);
    Tensor own = Tensor::empty(from.dtype(), from.shape());
    copy_rows(from, own);
    t.tensor = std::move(own);
  }
  if (states_) load_into(*states_);
}

void QuantizedModule::load_into(QuantizerStates& states) {
  const ExtraState extra = sorted(pending_state_);
  const auto histories = histories_of(states);
  if (!histories.empty()) check_histories(name(), histories, extra.histories);
  check_random_offsets(*states.forward, name(), extra.offsets_fwd);
  check_random_offsets(*states.backward, name(), extra.offsets_bwd);
  for (const NamedHistory& h : histories) {
    copy_rows(*find(extra.histories, h.scale), h.state->scale);
    copy_rows(*find(extra.histories, h.history), h.state->amax_history);
  }
  set_random_offsets(*states.forward, extra.offsets_fwd);
  set_random_offsets(*states.backward, extra.offsets_bwd);
  pending_state_.clear();
}

}  // namespace assay::te
