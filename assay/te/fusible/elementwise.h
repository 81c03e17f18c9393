// Operations between the GEMMs: dropout, scaling, and the two ends of a
// residual connection. (NVTE: ops.Dropout, ops.ConstantScale,
// ops.AddExtraInput, ops.MakeExtraOutput)
#pragma once

#include "assay/te/fusible/operation.h"

namespace assay::te::ops {

// te/ops/dropout.h; the mask comes from the thread's random state (random.h).
// Without a context, and for p = 0, it is the identity.
class Dropout : public BasicOperation {
 public:
  // p in [0, 1).
  explicit Dropout(float p);

  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;

 private:
  float p_;
};

// scale x; the gradient is scale dy. Each rounded once.
class ConstantScale : public BasicOperation {
 public:
  explicit ConstantScale(float scale);

  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  float scale() const { return scale_; }

 private:
  float scale_;
};

// `in_place`: nobody else needs the values of the tensor that is added to (the
// extra input here, the gradient of the extra output below), so that a GEMM
// may take it in: fusion rules ask for it, as NVTE's do. Results are fresh
// tensors in any case.

// x + the extra input, of x's shape; the gradient of both is dy.
class AddExtraInput : public BasicOperation {
 public:
  explicit AddExtraInput(bool in_place = false)
      : BasicOperation("AddExtraInput"), in_place_(in_place) {}

  int num_extra_inputs() const override { return 1; }
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  bool in_place() const { return in_place_; }

 private:
  bool in_place_;
};

// x, and x as an extra output, its bytes shared; the gradient is the sum of
// the two, rounded once.
class MakeExtraOutput : public BasicOperation {
 public:
  explicit MakeExtraOutput(bool in_place = false)
      : BasicOperation("MakeExtraOutput"), in_place_(in_place) {}

  int num_extra_outputs() const override { return 1; }
  Value forward(Value input, ForwardStep& step) override;
  Value backward(Value grad, BackwardStep& step) override;
  bool in_place() const { return in_place_; }

 private:
  bool in_place_;
};

}  // namespace assay::te::ops
