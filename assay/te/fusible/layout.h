// Operations that do not change values: identity, another shape, and the
// choice to hold a tensor quantised. (NVTE: ops.Identity, ops.Reshape,
// ops.Quantize)
#pragma once

#include "assay/te/fusible/operation.h"

namespace assay::te::ops {

class Identity : public BasicOperation {
 public:
  Identity() : BasicOperation("Identity") {}
  Value forward(Value input, ForwardStep&) override { return input; }
  Value backward(Value grad, BackwardStep&) override { return grad; }
};

class Reshape : public BasicOperation {
 public:
  // One dimension may be -1: what is left. Throws Error{kUsage} where another
  // one is negative, or two are -1; the forward where the sizes differ.
  explicit Reshape(Shape shape);

  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;

 private:
  Shape shape_;
};

// Quantises what passes as the recipe does the input (the gradient of the
// output) of a GEMM: the next operation gets the codes, and one that computes
// on values what they stand for. The identity outside of Autocast, and for
// the gradient where the recipe has it in high precision (backward_override).
class Quantize : public BasicOperation {
 public:
  explicit Quantize(bool forward = true, bool backward = false)
      : BasicOperation("Quantize", 1), forward_(forward), backward_(backward) {}

  int num_quantizers(Direction direction) const override {
    return direction == Direction::kForward ? forward_ : backward_;
  }
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  Quantizer* input_quantizer(const ForwardStep& step,
                             const Shape& shape) const override;
  Quantizer* grad_quantizer(OperationContext& context) const override;

 private:
  bool forward_, backward_;
};

}  // namespace assay::te::ops
