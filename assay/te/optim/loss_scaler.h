// Dynamic loss scaling: the factor that keeps fp16 gradients from underflow.
//
// Source: Micikevicius et al., arXiv:1710.03740; torch.amp.GradScaler, whose
// defaults these are, and Megatron's DynamicGradScaler, whose hysteresis and
// least scale are optional here. The loss is multiplied by scale() before
// backward; unscale() multiplies the gradients by 1 / scale and says whether
// one of them was not finite; the step is skipped then; update() moves the
// scale. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "assay/te/modules/named_tensor.h"

namespace assay::te {

struct LossScalerOptions {
  float init_scale = 65536;   // at least 2^-126
  float growth_factor = 2;    // above 1
  float backoff_factor = .5;  // above 0, below 1
  std::int64_t growth_interval = 2000;
  float min_scale = 0;
  std::int64_t hysteresis = 1;  // overflows before the scale falls
};

class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& options = {});

  float scale() const { return scale_; }
  // In place, fp32(g * fp32(1 / scale)) rounded to each dtype. True where a
  // gradient held a NaN or an infinity before; of a sharded model the caller
  // takes the maximum over ranks.
  bool unscale(std::span<Tensor> grads) const;
  // After each step, made or skipped. Overflow: the count of good steps starts
  // over, and once `hysteresis` overflows are used up each one multiplies the
  // scale by backoff_factor, not below min_scale nor 2^-126. growth_interval
  // good steps in a row multiply it by growth_factor, unless that is infinite,
  // and give the hysteresis back.
  void update(bool found_inf);

  // "loss_scale" (f32 [1]), "growth_tracker", "hysteresis_tracker" (i64 [1]).
  std::vector<NamedTensor> state_dict() const;
  void load_state_dict(std::span<const NamedTensor> state);

 private:
  LossScalerOptions options_;
  float scale_;
  std::int64_t growth_tracker_ = 0;
  std::int64_t hysteresis_tracker_;
};

}  // namespace assay::te
