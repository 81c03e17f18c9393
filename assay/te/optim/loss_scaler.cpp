#include "assay/te/optim/loss_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "assay/te/check.h"
#include "assay/te/optim/multi_tensor.h"

namespace assay::te {
namespace {

constexpr std::string_view kOp = "LossScaler";

template <typename T>
NamedTensor one_value(const char* name, DType dtype, T value) {
  NamedTensor out{name, Tensor::empty(dtype, {1})};
  *out.tensor.mutable_data<T>() = value;
  return out;
}

const Tensor& find(std::span<const NamedTensor> state, std::string_view name,
                   DType dtype) {
  for (const NamedTensor& t : state) {
    if (t.name != name) continue;
    require_dtype(kOp, name, t.tensor, {dtype});
    require_shape(kOp, name, t.tensor, {1});
    return t.tensor;
  }
  fail(kOp, name, "missing", "a tensor");
}

// The smallest normal float: below it gradients cannot be divided by the scale,
// whose inverse would be infinite.
constexpr float kLeastScale = std::numeric_limits<float>::min();

bool is_scale(float scale) {
  return scale >= kLeastScale && std::isfinite(scale);
}
constexpr const char* kScale = "finite and at least 2^-126";

}  // namespace

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options),
      scale_(options.init_scale),
      hysteresis_tracker_(options.hysteresis) {
  const auto check = [](bool ok, const char* name, float value,
                        const char* allowed) {
    require_value(ok, kOp, name, static_cast<double>(value), allowed);
  };
  check(is_scale(scale_), "init_scale", scale_, kScale);
  check(options.growth_factor > 1, "growth_factor", options.growth_factor,
        "above 1");
  check(options.backoff_factor > 0 && options.backoff_factor < 1,
        "backoff_factor", options.backoff_factor, "above 0 and below 1");
  check(options.min_scale >= 0 && options.min_scale <= scale_, "min_scale",
        options.min_scale, "at least 0 and at most init_scale");
  require(options.growth_interval >= 1, kOp, "growth_interval",
          std::to_string(options.growth_interval), ">= 1");
  require(options.hysteresis >= 1, kOp, "hysteresis",
          std::to_string(options.hysteresis), ">= 1");
}

bool LossScaler::unscale(std::span<Tensor> grads) const {
  const std::vector<Tensor> inputs(grads.begin(), grads.end());
  return multi_tensor_scale(inputs, grads, 1.0f / scale_);
}

void LossScaler::update(bool found_inf) {
  if (found_inf) {
    growth_tracker_ = 0;
    hysteresis_tracker_ = std::max<std::int64_t>(hysteresis_tracker_ - 1, 0);
    if (hysteresis_tracker_ == 0)
      scale_ = std::max(
          {scale_ * options_.backoff_factor, options_.min_scale, kLeastScale});
    return;
  }
  if (++growth_tracker_ < options_.growth_interval) return;
  growth_tracker_ = 0;
  hysteresis_tracker_ = options_.hysteresis;
  const float grown = scale_ * options_.growth_factor;
  if (std::isfinite(grown)) scale_ = grown;
}

std::vector<NamedTensor> LossScaler::state_dict() const {
  return {one_value("loss_scale", DType::kF32, scale_),
          one_value("growth_tracker", DType::kI64, growth_tracker_),
          one_value("hysteresis_tracker", DType::kI64, hysteresis_tracker_)};
}

void LossScaler::load_state_dict(std::span<const NamedTensor> state) {
  const float scale = *find(state, "loss_scale", DType::kF32).data<float>();
  const auto growth =
      *find(state, "growth_tracker", DType::kI64).data<std::int64_t>();
  const auto hysteresis =
      *find(state, "hysteresis_tracker", DType::kI64).data<std::int64_t>();
  require_value(is_scale(scale), kOp, "loss_scale", static_cast<double>(scale),
                kScale);
  require(growth >= 0, kOp, "growth_tracker", std::to_string(growth), ">= 0");
  require(hysteresis >= 0, kOp, "hysteresis_tracker",
          std::to_string(hysteresis), ">= 0");
  scale_ = scale;
  growth_tracker_ = growth;
  hysteresis_tracker_ = hysteresis;
}

}  // namespace assay::te
