// FusedSGD: lists for multi_tensor_sgd out of parameters and their buffers.
#include "assay/te/check.h"
#include "assay/te/optim/optimizer.h"
#include "assay/te/optim/sgd.h"

namespace assay::te {
namespace {

// Tensors of one call; `copies` of all of them or of none.
struct Batch {
  std::vector<Tensor> grads, params, momentum, copies;
};

const FusedSGDOptions& checked(const FusedSGDOptions& o) {
  constexpr std::string_view kOp = "FusedSGD";
  require_value(o.momentum >= 0, kOp, "momentum", o.momentum, "at least 0");
  require(!o.nesterov || (o.momentum > 0 && o.dampening == 0), kOp, "nesterov",
          "without momentum, or with dampening", "momentum > 0, dampening 0");
  return o;
}

}  // namespace

FusedSGD::FusedSGD(std::vector<ParameterGroup> groups,
                   const FusedSGDOptions& options)
    : Optimizer("FusedSGD", std::move(groups), checked(options).lr,
                options.weight_decay,
                {options.master_weights, DType::kF32, false}),
      options_(options) {
  if (options_.momentum == 0) return;
  for (Slot& slot : slots_)
    slot.states.push_back(zero_state(slot, "momentum_buffer", DType::kF32));
}

FusedSGD::FusedSGD(std::vector<OptimizerParameter> parameters,
                   const FusedSGDOptions& options)
    : FusedSGD(one_group(std::move(parameters)), options) {}

void FusedSGD::update(std::span<Tensor> grads, std::int64_t step) {
  // [group][0] without copies, [group][1] with.
  std::vector<std::array<Batch, 2>> groups(groups_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    State* master = slot.find("master_param");
    const bool copy = master != nullptr && !slot.is_quantized();
    Batch& batch = groups[slot.group][copy ? 1 : 0];
    batch.grads.push_back(grads[i]);
    batch.params.push_back(master != nullptr ? master->data
                                             : slot.parameter.value);
    if (copy) batch.copies.push_back(slot.parameter.value);
    if (State* buffer = slot.find("momentum_buffer"))
      batch.momentum.push_back(buffer->data);
  }
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const SgdOptions options{
        .lr = lr(g),
        .momentum = options_.momentum,
        .dampening = options_.dampening,
        .weight_decay = weight_decay(g),
        .nesterov = options_.nesterov,
        .first_run = step == 1,
        .decay_after_momentum = options_.wd_after_momentum};
    for (Batch& b : groups[g])
      multi_tensor_sgd({b.grads, b.params, b.momentum, b.copies}, options);
  }
}

}  // namespace assay::te
