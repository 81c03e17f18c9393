// Normalisations. (NVTE: ops.LayerNorm, ops.RMSNorm, ops.L2Normalization)
//
// Formulas and rounding: te/ops/norm.h. Results have the dtype of the input,
// whatever the weights' (NVTE takes the weights'). Where the next operation is
// a GEMM the result is quantised at once (te/quantize/fused.h): delayed
// scaling then sees it unrounded, which saves one rounding to the dtype; the
// other recipes give the same bits as one after the other.
#pragma once

#include "assay/te/fusible/operation.h"
#include "assay/te/modules/norm_core.h"

namespace assay::te::ops {

struct NormalizationOptions {
  float eps = 1e-5f;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  bool zero_centered_gamma = false;  // the weight is 1 + "weight"
};

class NormOperation : public BasicOperation {
 public:
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  // dx += add, before the rounding; null: nothing.
  Tensor backward_add(const Value& grad, BackwardStep& step, const Tensor* add);
  bool quantizes_result(Direction direction) const override {
    return direction == Direction::kForward;
  }

 protected:
  NormOperation(std::string type, Shape normalized_shape,
                te::Normalization kind, const NormalizationOptions& options);

 private:
  NormCore core_;
};

// Parameters "weight" (ones, or zeros) and "bias" (zeros) of normalized_shape,
// the last dimensions of the input. Throws Error{kUsage} for an empty shape or
// a dimension that is not positive.
class LayerNorm : public NormOperation {
 public:
  explicit LayerNorm(Shape normalized_shape,
                     const NormalizationOptions& options = {})
      : NormOperation("LayerNorm", std::move(normalized_shape),
                      te::Normalization::kLayerNorm, options) {}
};

// Parameter "weight" alone.
class RMSNorm : public NormOperation {
 public:
  explicit RMSNorm(Shape normalized_shape,
                   const NormalizationOptions& options = {})
      : NormOperation("RMSNorm", std::move(normalized_shape),
                      te::Normalization::kRMSNorm, options) {}
};

// x / sqrt(sum of squares over the last dimension + eps).
class L2Normalization : public BasicOperation {
 public:
  explicit L2Normalization(float eps = 1e-6f);

  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;

 private:
  L2NormOptions options_;
};

}  // namespace assay::te::ops
