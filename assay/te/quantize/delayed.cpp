#include "assay/te/quantize/delayed.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tensor_scaled.h"

namespace assay::te {
namespace {

constexpr const char* kOp = "DelayedScalingQuantizer";

}  // namespace

DelayedScalingQuantizer::DelayedScalingQuantizer(
    DType format, std::shared_ptr<DelayedScalingState> state, std::int64_t slot)
    : format_(format), state_(std::move(state)), slot_(slot) {
  require_cast_format(kOp, format);
  require(state_ != nullptr, kOp, "state", "null", "a state");
  require(slot >= 0 && slot < state_->slots(), kOp, "slot",
          std::to_string(slot), "below " + std::to_string(state_->slots()));
}

std::vector<QuantizedTensor> DelayedScalingQuantizer::quantize_multi(
    std::span<const Tensor> xs) {
  const float scale = state_->scale.data<float>()[slot_];
  const std::vector<float> scales(xs.size(), scale);
  auto out = quantize_scaled(xs, scales, {format_, usage(), true});
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& q = out[i].rowwise ? out[i].rowwise : out[i].columnwise;
    state_->record(
        slot_, q ? *q->amax.data<float>() : tensor_amax(xs.subspan(i, 1))[0]);
  }
  return out;
}

QuantizedTensor DelayedScalingQuantizer::quantize(const Tensor& x) {
  return std::move(quantize_multi(std::span(&x, 1)).front());
}

QuantizedTensor DelayedScalingQuantizer::quantize_fused(const Tensor& x_f32,
                                                        DType dtype) {
  require_dtype(kOp, "x", x_f32, {DType::kF32});
  QuantizedTensor q = quantize(x_f32);
  q.dtype = dtype;
  return q;
}

void DelayedScalingQuantizer::calibrate(const Tensor& x) {
  state_->record(slot_, tensor_amax(x));
}

std::unique_ptr<Quantizer> DelayedScalingQuantizer::clone() const {
  auto copy = std::make_unique<DelayedScalingQuantizer>(
      format_, std::make_shared<DelayedScalingState>(state_->copy()), slot_);
  copy->set_usage(usage());
  return copy;
}

}  // namespace assay::te
