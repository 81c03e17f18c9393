// Learning rate and weight decay as functions of the step.
//
// Source: Megatron-Core OptimizerParamScheduler, value by value (fp64). A step
// is any unit that counts up: Megatron counts samples. Pure functions: nothing
// to save but the step. Throw Error{kUsage} for options that contradict.
#pragma once

#include <cstdint>

namespace assay::te {

enum class DecayStyle : std::uint8_t {
  kConstant,
  kLinear,
  kCosine,
  kInverseSquareRoot,
  kWsd,  // constant, then annealed over the last wsd_decay_steps
};
enum class WsdStyle : std::uint8_t {
  kLinear,
  kCosine,
  kExponential,  // 2 * 0.5^ratio - 1
  kMinusSqrt,    // 1 - sqrt(ratio)
};

struct LrSchedule {
  double init_lr = 0;  // where the warm-up begins
  double max_lr = 1e-3, min_lr = 0;
  std::int64_t warmup_steps = 0;  // below decay_steps
  std::int64_t decay_steps = 1;
  DecayStyle style = DecayStyle::kCosine;
  std::int64_t wsd_decay_steps = 0;
  WsdStyle wsd_style = WsdStyle::kLinear;
};

// step <= warmup_steps: init_lr + (max_lr - init_lr) step / warmup_steps.
// Then, with r = (step - warmup) / (decay - warmup), min_lr + c (max_lr -
// min_lr): c = 1 - r, or (cos(pi r) + 1) / 2; or max(min_lr, max_lr
// sqrt(warmup) / sqrt(step)). Beyond decay_steps min_lr; constant: max_lr.
double learning_rate(const LrSchedule& schedule, std::int64_t step);

struct WeightDecaySchedule {
  double start = 0, end = 0;  // equal where the style is constant
  std::int64_t increase_steps = 1;
  DecayStyle style = DecayStyle::kConstant;  // or kLinear, kCosine
};
double weight_decay_at(const WeightDecaySchedule& schedule, std::int64_t step);

}  // namespace assay::te
