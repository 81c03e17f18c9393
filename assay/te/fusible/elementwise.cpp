#include "assay/te/fusible/elementwise.h"

#include <cmath>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/random.h"
#include "assay/te/ops/dropout.h"
#include "assay/te/ops/residual.h"

namespace assay::te::ops {
namespace {

struct DropoutSaved {
  Tensor mask;
  void visit_tensors(const TensorVisitor& visit) const { visit(mask); }
};

}  // namespace

Dropout::Dropout(float p) : BasicOperation("Dropout"), p_(p) {
  require_value(p >= 0 && p < 1, name(), "p", static_cast<double>(p),
                "in [0, 1)");
}

Value Dropout::forward(Value input, ForwardStep& step) {
  if (!step.training() || p_ == 0) return input;
  DropoutForward out =
      dropout_forward(tensor_of(input), p_, next_dropout_state());
  step.context->saved.emplace<DropoutSaved>().mask = std::move(out.mask);
  return std::move(out.y);
}

Value Dropout::backward(Value grad, BackwardStep& step) {
  if (p_ == 0) return grad;
  const auto& saved = step.context->saved.as<DropoutSaved>();
  Tensor dx = dropout_backward(tensor_of(grad), saved.mask, p_);
  step.context->saved.reset();
  return dx;
}

ConstantScale::ConstantScale(float scale)
    : BasicOperation("ConstantScale"), scale_(scale) {
  require_value(!std::isnan(scale), name(), "scale", static_cast<double>(scale),
                "a number");
}

Value ConstantScale::forward(Value input, ForwardStep&) {
  return constant_scale(tensor_of(input), scale_);
}

Value ConstantScale::backward(Value grad, BackwardStep&) {
  return constant_scale(tensor_of(grad), scale_);
}

Value AddExtraInput::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  require_shape(name(), "extra input", step.extra_inputs[0], x.shape());
  return residual_add(x, step.extra_inputs[0]);
}

Value AddExtraInput::backward(Value grad, BackwardStep& step) {
  Tensor dy = tensor_of(grad);
  step.extra_input_grads = {dy};
  return dy;
}

Value MakeExtraOutput::forward(Value input, ForwardStep& step) {
  Tensor x = tensor_of(input);
  step.extra_outputs = {x};
  return x;
}

Value MakeExtraOutput::backward(Value grad, BackwardStep& step) {
  const Tensor dy = tensor_of(grad);
  require_shape(name(), "gradient of the extra output",
                step.extra_output_grads[0], dy.shape());
  return residual_add(dy, step.extra_output_grads[0]);
}

}  // namespace assay::te::ops
