#include "assay/te/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "assay/te/check.h"

namespace assay::te {
namespace {

double cosine(double ratio) {
  return 0.5 * (std::cos(std::numbers::pi * ratio) + 1);
}

double anneal(WsdStyle style, double ratio) {
  switch (style) {
    case WsdStyle::kLinear:
      return 1 - ratio;
    case WsdStyle::kCosine:
      return cosine(ratio);
    case WsdStyle::kExponential:
      return 2 * std::pow(0.5, ratio) - 1;
    case WsdStyle::kMinusSqrt:
      return 1 - std::sqrt(ratio);
  }
  return 0;
}

void check(const LrSchedule& s, std::int64_t step) {
  constexpr std::string_view kOp = "learning_rate";
  require_value(s.min_lr >= 0, kOp, "min_lr", s.min_lr, "at least 0");
  require_value(s.max_lr >= s.min_lr && std::isfinite(s.max_lr), kOp, "max_lr",
                s.max_lr, "finite and at least min_lr");
  require_value(s.init_lr >= 0 && s.init_lr <= s.max_lr, kOp, "init_lr",
                s.init_lr, "at least 0 and at most max_lr");
  require(step >= 0, kOp, "step", std::to_string(step), ">= 0");
  require(s.decay_steps > 0, kOp, "decay_steps", std::to_string(s.decay_steps),
          "> 0");
  require(s.warmup_steps >= 0 && s.warmup_steps < s.decay_steps, kOp,
          "warmup_steps", std::to_string(s.warmup_steps),
          "at least 0 and below decay_steps");
  require(s.style != DecayStyle::kWsd ||
              (s.wsd_decay_steps > 0 && s.wsd_decay_steps <= s.decay_steps),
          kOp, "wsd_decay_steps", std::to_string(s.wsd_decay_steps),
          "above 0 and at most decay_steps");
}

}  // namespace

double learning_rate(const LrSchedule& s, std::int64_t step) {
  check(s, step);
  const auto at = static_cast<double>(step);
  const auto warmup = static_cast<double>(s.warmup_steps);
  if (s.warmup_steps > 0 && step <= s.warmup_steps)
    return s.init_lr + (s.max_lr - s.init_lr) * at / warmup;
  if (s.style == DecayStyle::kConstant) return s.max_lr;
  if (step > s.decay_steps) return s.min_lr;
  if (s.style == DecayStyle::kInverseSquareRoot)
    return std::max(s.min_lr, s.max_lr * std::sqrt(std::max(warmup, 1.0)) /
                                  std::sqrt(std::max(at, 1.0)));
  const double ratio =
      (at - warmup) / (static_cast<double>(s.decay_steps) - warmup);
  double factor = 1;
  if (s.style == DecayStyle::kLinear) {
    factor = 1 - ratio;
  } else if (s.style == DecayStyle::kCosine) {
    factor = cosine(ratio);
  } else if (step > s.decay_steps - s.wsd_decay_steps) {
    const auto done =
        static_cast<double>(step - (s.decay_steps - s.wsd_decay_steps));
    factor = anneal(s.wsd_style, done / static_cast<double>(s.wsd_decay_steps));
  }
  return s.min_lr + factor * (s.max_lr - s.min_lr);
}

double weight_decay_at(const WeightDecaySchedule& s, std::int64_t step) {
  constexpr std::string_view kOp = "weight_decay_at";
  require_value(s.start >= 0, kOp, "start", s.start, "at least 0");
  require_value(s.end >= s.start && std::isfinite(s.end), kOp, "end", s.end,
                "finite and at least start");
  require(step >= 0, kOp, "step", std::to_string(step), ">= 0");
  require(s.increase_steps > 0, kOp, "increase_steps",
          std::to_string(s.increase_steps), "> 0");
  require(s.style <= DecayStyle::kCosine, kOp, "style",
          std::to_string(static_cast<int>(s.style)),
          "constant, linear or cosine");
  require(s.style != DecayStyle::kConstant || s.start == s.end, kOp, "style",
          "constant with two values", "start equal to end");
  if (step > s.increase_steps || s.style == DecayStyle::kConstant) return s.end;
  const double ratio =
      static_cast<double>(step) / static_cast<double>(s.increase_steps);
  const double factor =
      s.style == DecayStyle::kLinear ? ratio : cosine(1 - ratio);
  return s.start + factor * (s.end - s.start);
}

}  // namespace assay::te
