// Normalisations. (NVTE: ops.LayerNorm, ops.RMSNorm, ops.L2Normalization)
//
// Formulas and rounding: te/ops/norm.h. Results have the dtype of the input,
// whatever the weights' (NVTE takes the weights'). Where the next operation is
// a GEMM the result is quantised at once (te/quantize/fused.h): delayed
// scaling then sees it unrounded, which saves one rounding to the dtype; the
// other recipes give the same bits as one after the other.
#pragma once

#include <memory>

#include "assay/te/fusible/operation.h"
#include "assay/te/ops/norm.h"
#include "assay/te/quantize/fused.h"

namespace assay::te::ops {

struct NormalizationOptions {
  float eps = 1e-5f;
  DType dtype = DType::kF32;
  Device device = Device::kCpu;
  bool zero_centered_gamma = false;  // the weight is 1 + "weight"
};

class Normalization : public BasicOperation {
 public:
  struct Saved {
    Tensor x, mean, rsigma;  // x: a matrix of the normalised columns
    Shape shape;
    void visit_tensors(const TensorVisitor& visit) const;
  };

  Value forward(Value input, ForwardStep& step) final;
  Value backward(Value grad, BackwardStep& step) final;
  // dx += add, before the rounding.
  Tensor backward_add(Value grad, BackwardStep& step, const Tensor* add);
  bool quantizes_result(Direction direction) const final {
    return direction == Direction::kForward;
  }
  Parameter& weight() { return *weight_; }

 protected:
  // Parameter "weight", ones (zeros where zero-centred). Throws Error{kUsage}
  // for an empty shape or a dimension that is not positive.
  Normalization(std::string type, Shape normalized_shape,
                const NormalizationOptions& options);
  Parameter& add_vector(const std::string& name, double value,
                        const NormalizationOptions& options);
  Tensor vector_of(const Parameter& parameter) const;  // [columns]
  Tensor gamma() const { return vector_of(*weight_); }
  const NormOptions& norm_options() const { return options_; }

 private:
  virtual NormForward norm(const Tensor& x) const = 0;
  virtual NormQuantized norm_quantized(Quantizer& quantizer,
                                       const Tensor& x) const = 0;
  // `add` may be null.
  virtual NormBackward norm_grad(const Tensor& dz, const Saved& saved,
                                 const Tensor* add) const = 0;
  virtual Parameter* bias_parameter() const { return nullptr; }

  Shape normalized_shape_;
  std::int64_t columns_ = 1;
  NormOptions options_;
  Parameter* weight_ = nullptr;
};

// Parameters "weight" and "bias" of normalized_shape, the last dimensions of
// the input.
class LayerNorm : public Normalization {
 public:
  explicit LayerNorm(Shape normalized_shape,
                     const NormalizationOptions& options = {});
  Parameter& bias() { return *bias_; }

 private:
  NormForward norm(const Tensor& x) const override;
  NormQuantized norm_quantized(Quantizer& quantizer,
                               const Tensor& x) const override;
  NormBackward norm_grad(const Tensor& dz, const Saved& saved,
                         const Tensor* add) const override;
  Parameter* bias_parameter() const override { return bias_; }
  Parameter* bias_;
};

// Parameter "weight" alone.
class RMSNorm : public Normalization {
 public:
  explicit RMSNorm(Shape normalized_shape,
                   const NormalizationOptions& options = {});

 private:
  NormForward norm(const Tensor& x) const override;
  NormQuantized norm_quantized(Quantizer& quantizer,
                               const Tensor& x) const override;
  NormBackward norm_grad(const Tensor& dz, const Saved& saved,
                         const Tensor* add) const override;
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
