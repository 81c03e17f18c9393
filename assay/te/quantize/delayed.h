// Delayed scaling: the scale comes from the maxima of earlier steps.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "assay/te/quantize/delayed_state.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// Quantises with the scale of one slot of a state and leaves max |x| (NaN
// skipped, before scaling) in its staging row, in one pass over x: the cast of
// tensor_scaled.h. What exceeds fp8_max / scale saturates. Several quantisers
// share one state; two that use different slots may run at the same time, an
// update may not.
class DelayedScalingQuantizer : public Quantizer {
 public:
  // Throws Error{kUsage} for a format that is no 8-bit float, a null state or
  // a slot that it has not.
  DelayedScalingQuantizer(DType format,
                          std::shared_ptr<DelayedScalingState> state,
                          std::int64_t slot);

  QuantizedTensor quantize(const Tensor& x) override;
  // Takes x unrounded.
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  // All with the scale of the slot; it is left with the largest amax.
  std::vector<QuantizedTensor> quantize_multi(
      std::span<const Tensor> xs) override;
  // Only leaves max |x| in the staging row.
  void calibrate(const Tensor& x);

  ScalingMode mode() const override { return ScalingMode::kTensor; }
  DType format() const override { return format_; }
  // A quantiser of the same slot in a copy of the state.
  std::unique_ptr<Quantizer> clone() const override;

  const std::shared_ptr<DelayedScalingState>& state() const { return state_; }
  std::int64_t slot() const { return slot_; }

 private:
  DType format_;
  std::shared_ptr<DelayedScalingState> state_;
  std::int64_t slot_;
};

}  // namespace assay::te
