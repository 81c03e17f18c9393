// Activations. (NVTE: ops.GELU, ops.SwiGLU ... and the ScaledXYZ)
//
// Formulas and rounding: te/ops/activation.h. Gated ones take rows of 2H, gate
// first, and give rows of H. Where a GEMM comes next (before, in the backward)
// the result is quantised at once (te/quantize/fused.h): delayed scaling then
// sees it unrounded; the other recipes give the same bits as one after the
// other.
#pragma once

#include <cstdint>
#include <memory>

#include "assay/te/fusible/operation.h"
#include "assay/te/ops/activation.h"
#include "assay/te/quantize/quantizer.h"

namespace assay::te::ops {

// NVTE's name of the operation: "GELU", "ClampedSwiGLU" ...
std::string_view operation_name(Activation act);

struct ActivationOperationOptions {
  // What is kept for the backward is E4M3 with one scale of its own (current
  // scaling): a byte an element, and a derivative at the decoded input.
  bool cache_quantized_input = false;
  // Gated ones: te/ops/activation.h.
  std::int64_t glu_interleave_size = 0;
  // limit, alpha, linear_offset of ClampedSwiGLU; beta1, beta2 of SiTUGLU.
  ActivationParams params = {};
};

class ActivationOperation : public BasicOperation {
 public:
  // Throws Error{kUsage} for an interleave size of one that is not gated.
  explicit ActivationOperation(Activation act,
                               const ActivationOperationOptions& options = {});

  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  bool quantizes_result(Direction) const override { return true; }

  Activation activation() const { return act_; }
  const ActivationOptions& options() const { return options_; }
  // Keeps the input for the backward; takes it out again. For fused ones.
  void save_input(const Tensor& x, OperationContext& context) const;
  Tensor take_input(OperationContext& context) const;

 private:
  Activation act_;
  ActivationOptions options_;
  bool cache_quantized_input_;
};

template <Activation kAct>
class ActivationOf : public ActivationOperation {
 public:
  explicit ActivationOf(const ActivationOperationOptions& options = {})
      : ActivationOperation(kAct, options) {}
};
using GELU = ActivationOf<Activation::kGelu>;
using SiLU = ActivationOf<Activation::kSilu>;
using ReLU = ActivationOf<Activation::kRelu>;
using QGELU = ActivationOf<Activation::kQGelu>;
using SReLU = ActivationOf<Activation::kSRelu>;
using GLU = ActivationOf<Activation::kGlu>;
using GEGLU = ActivationOf<Activation::kGeglu>;
using SwiGLU = ActivationOf<Activation::kSwiglu>;
using ReGLU = ActivationOf<Activation::kReglu>;
using QGEGLU = ActivationOf<Activation::kQGeglu>;
using SReGLU = ActivationOf<Activation::kSreglu>;
using ClampedSwiGLU = ActivationOf<Activation::kClampedSwiglu>;
using SiTUGLU = ActivationOf<Activation::kSituglu>;

// Row r of the result is scales[r] act(x)[r]; the scales are an extra input:
// one a row, float32 or x's dtype. Their gradient has their shape.
class ScaledActivation : public BasicOperation {
 public:
  ScaledActivation(std::string type, Activation act, ActivationOptions options);

  int num_extra_inputs() const override { return 1; }
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;

 private:
  Activation act_;
  ActivationOptions options_;
};

class ScaledSwiGLU : public ScaledActivation {
 public:
  explicit ScaledSwiGLU(std::int64_t glu_interleave_size = 0);
};
class ScaledSiTUGLU : public ScaledActivation {
 public:
  explicit ScaledSiTUGLU(std::int64_t glu_interleave_size = 0,
                         float beta1 = 4.0f, float beta2 = 25.0f);
};
class ScaledClampedQGeGLU : public ScaledActivation {
 public:
  explicit ScaledClampedQGeGLU(std::int64_t glu_interleave_size = 0,
                               float limit = 7.0f, float alpha = 1.702f,
                               float glu_linear_offset = 1.0f);
};
class ScaledSReLU : public ScaledActivation {
 public:
  ScaledSReLU();
};

}  // namespace assay::te::ops
