// FusedAdam: lists for multi_tensor_adam out of parameters and their states.
#include "assay/te/check.h"
#include "assay/te/optim/optimizer.h"

namespace assay::te {
namespace {

// Tensors of one call. Handles: they share their bytes with the states.
struct Batch {
  std::vector<Tensor> grads, params, exp_avg, exp_avg_sq, master, remainders;

  void update(const AdamOptions& options, std::int64_t step) {
    const AdamTensors lists{grads, params, exp_avg, exp_avg_sq, master};
    if (!remainders.empty())
      multi_tensor_adam_param_remainder(lists, remainders, options, step);
    else
      multi_tensor_adam(lists, options, step);
  }
};

// By where the master is: nowhere but in the parameter (or, of a quantised
// one, nowhere but in the master), beside the parameter, or half in each.
struct Batches {
  Batch plain, with_master, with_remainder;

  void update(const AdamOptions& options, std::int64_t step) {
    plain.update(options, step);
    with_master.update(options, step);
    with_remainder.update(options, step);
  }
};

bool is_state_dtype(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 ||
         dtype == DType::kF16 || dtype == DType::kE4M3FN;
}

const FusedAdamOptions& checked(const FusedAdamOptions& o) {
  constexpr std::string_view kOp = "FusedAdam";
  const auto name = [](DType d) { return std::string(traits(d).name); };
  require(!o.amsgrad, kOp, "amsgrad", "true", "false");
  require_value(o.beta1 >= 0 && o.beta1 < 1, kOp, "beta1", o.beta1,
                "at least 0 and below 1");
  require_value(o.beta2 >= 0 && o.beta2 < 1, kOp, "beta2", o.beta2,
                "at least 0 and below 1");
  require_value(o.eps >= 0, kOp, "eps", o.eps, "at least 0");
  const std::string states = "float32, bfloat16, float16 or float8_e4m3fn";
  require(is_state_dtype(o.exp_avg_dtype), kOp, "exp_avg_dtype",
          name(o.exp_avg_dtype), states);
  require(is_state_dtype(o.exp_avg_sq_dtype), kOp, "exp_avg_sq_dtype",
          name(o.exp_avg_sq_dtype), states);
  require(o.master_weight_dtype == DType::kF32 ||
              o.master_weight_dtype == DType::kF16,
          kOp, "master_weight_dtype", name(o.master_weight_dtype),
          "float32 or float16");
  require(!o.store_param_remainders ||
              (o.master_weights && o.master_weight_dtype == DType::kF32),
          kOp, "store_param_remainders",
          "true without master_weights in float32", "both or neither");
  return o;
}

}  // namespace

FusedAdam::FusedAdam(std::vector<ParameterGroup> groups,
                     const FusedAdamOptions& options)
    : Optimizer("FusedAdam", std::move(groups), checked(options).lr,
                options.weight_decay,
                {options.master_weights, options.master_weight_dtype,
                 options.store_param_remainders}),
      options_(options) {
  for (Slot& slot : slots_) {
    slot.states.push_back(zero_state(slot, "exp_avg", options_.exp_avg_dtype));
    slot.states.push_back(
        zero_state(slot, "exp_avg_sq", options_.exp_avg_sq_dtype));
  }
}

FusedAdam::FusedAdam(std::vector<OptimizerParameter> parameters,
                     const FusedAdamOptions& options)
    : FusedAdam(one_group(std::move(parameters)), options) {}

void FusedAdam::update(std::span<Tensor> grads, std::int64_t step) {
  const auto add = [](Batches& to, Slot& slot, const Tensor& grad,
                      WorkingState& m, WorkingState& v, WorkingState* master) {
    Batch& batch = slot.splits() ? to.with_remainder
                   : slot.is_quantized() || master == nullptr ? to.plain
                                                              : to.with_master;
    batch.grads.push_back(grad);
    batch.exp_avg.push_back(m.tensor());
    batch.exp_avg_sq.push_back(v.tensor());
    batch.params.push_back(slot.is_quantized() ? master->tensor()
                                               : slot.parameter.value);
    if (&batch == &to.with_master) batch.master.push_back(master->tensor());
    if (&batch == &to.with_remainder)
      batch.remainders.push_back(master->tensor());
  };
  std::vector<Batches> groups(groups_.size());
  const auto options_of = [&](std::size_t group) {
    return AdamOptions{
        .lr = lr(group),
        .beta1 = options_.beta1,
        .beta2 = options_.beta2,
        .eps = options_.eps,
        .weight_decay = weight_decay(group),
        .mode = options_.adam_w_mode ? AdamMode::kDecoupled : AdamMode::kL2,
        .bias_correction = options_.bias_correction};
  };
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    State &m = *slot.find("exp_avg"), &v = *slot.find("exp_avg_sq");
    State* p = slot.find("master_param");
    WorkingState exp_avg(m.data, m.scale), exp_avg_sq(v.data, v.scale);
    std::optional<WorkingState> master;
    if (p != nullptr) master.emplace(p->data, p->scale);
    WorkingState* known = master ? &*master : nullptr;
    if (!m.scaled() && !v.scaled() && (p == nullptr || !p->scaled())) {
      add(groups[slot.group], slot, grads[i], exp_avg, exp_avg_sq, known);
      continue;
    }
    // One at a time: decoded states take room.
    Batches alone;
    add(alone, slot, grads[i], exp_avg, exp_avg_sq, known);
    alone.update(options_of(slot.group), step);
    exp_avg.commit();
    exp_avg_sq.commit();
    if (known != nullptr) known->commit();
  }
  for (std::size_t g = 0; g < groups.size(); ++g)
    groups[g].update(options_of(g), step);
}

}  // namespace assay::te
