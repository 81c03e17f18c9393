// No quantisation: the high-precision tensor travels as it is.
#pragma once

#include <optional>

#include "assay/te/quantize/quantizer.h"

namespace assay::te {

// x in `dtype` (float32, bfloat16, float16; nullopt: its own), rounded once.
// Both directions hold the same M x K values, NOT transposed; there are no
// scales. A GEMM with such an operand runs in high precision. Stateless.
class IdentityQuantizer : public Quantizer {
 public:
  // Throws Error{kUsage} for another dtype.
  explicit IdentityQuantizer(std::optional<DType> dtype = std::nullopt);

  QuantizedTensor quantize(const Tensor& x) override;
  // Rounds x to `dtype` first, as the tensor would have been stored.
  QuantizedTensor quantize_fused(const Tensor& x_f32, DType dtype) override;
  ScalingMode mode() const override { return ScalingMode::kIdentity; }
  // The dtype asked for; float32 where it is that of the tensor.
  DType format() const override { return dtype_.value_or(DType::kF32); }
  std::unique_ptr<Quantizer> clone() const override;

 private:
  std::optional<DType> dtype_;
};

// x (float32, bfloat16, float16) in another of the three, nearest even.
Tensor convert_high_precision(const Tensor& x, DType dtype);

}  // namespace assay::te
