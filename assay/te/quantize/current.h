// Current scaling: one scale for the tensor, from the tensor itself.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "assay/te/quantize/quantizer.h"

namespace assay::te {

struct CurrentScalingOptions {
  DType format = DType::kE4M3FN;  // any of kCastFormats
  bool pow2 = false;
  float epsilon = 0;
  // The amax becomes the maximum over a group of processes. May be null.
  std::shared_ptr<AmaxReduction> amax_reduction;
  // Instead of measuring: the amax that another pass has found already. It is
  // reduced and becomes a scale as a measured one does.
  std::optional<float> existing_amax;
};

// Two passes: amax of x (NaN skipped), then with scale = compute_scale(amax,
// fp8_max, {pow2, epsilon, FLT_MAX}) the cast of tensor_scaled.h. A tensor of
// zeros, or with an infinity, has scale 1 (NVTE, docs/numerics.md; its Python
// reference differs for infinities, the kernel is followed). `amax` of the
// result is the reduced one before epsilon.
class CurrentScalingQuantizer : public Quantizer {
 public:
  // Throws Error{kUsage} for a format that is no 8-bit float or a negative
  // epsilon.
  explicit CurrentScalingQuantizer(const CurrentScalingOptions& options);

  QuantizedTensor quantize(const Tensor& x) override;
  // Rounds x to `dtype` first: the operator's result is written before its
  // amax is taken (docs/numerics.md), unlike under delayed scaling.
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  // One reduction for all of them.
  std::vector<QuantizedTensor> quantize_multi(
      std::span<const Tensor> xs) override;
  ScalingMode mode() const override { return ScalingMode::kTensor; }
  DType format() const override { return options_.format; }
  std::unique_ptr<Quantizer> clone() const override;

  const CurrentScalingOptions& options() const { return options_; }
  void set_existing_amax(std::optional<float> amax) {
    options_.existing_amax = amax;
  }

 private:
  CurrentScalingOptions options_;
};

}  // namespace assay::te
