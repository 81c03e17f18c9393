#include "assay/te/fusible/layout.h"

#include <utility>

#include "assay/te/check.h"

namespace assay::te::ops {
namespace {

struct ReshapeSaved {
  Shape shape;
  void visit_tensors(const TensorVisitor&) const {}
};

struct QuantizeSaved {
  std::shared_ptr<QuantizerStates> states;  // null: the gradient is not
  void visit_tensors(const TensorVisitor&) const {}
};

}  // namespace

Reshape::Reshape(Shape shape)
    : BasicOperation("Reshape"), shape_(std::move(shape)) {
  int open = 0;
  bool valid = true;
  for (std::int64_t d : shape_) {
    open += d == -1;
    valid &= d >= -1;
  }
  require(valid && open <= 1, name(), "shape", to_string(shape_),
          "sizes, and -1 at most once");
}

Value Reshape::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  Shape shape = shape_;
  Shape known;
  for (std::int64_t d : shape)
    if (d != -1) known.push_back(d);
  const std::int64_t rest = checked_numel(known).value_or(0);
  for (std::int64_t& d : shape)
    if (d == -1) d = rest > 0 && x.numel() % rest == 0 ? x.numel() / rest : 0;
  require(checked_numel(shape) == x.numel(), name(), "input",
          "shape " + to_string(x.shape()),
          "as many elements as " + to_string(shape_));
  if (step.context)
    step.context->saved.emplace<ReshapeSaved>().shape = x.shape();
  return with_shape(x, std::move(shape));
}

Value Reshape::backward(Value grad, BackwardStep& step) {
  auto& saved = step.context->saved.as<ReshapeSaved>();
  Tensor dx = with_shape(tensor_of(grad), std::move(saved.shape));
  step.context->saved.reset();
  return dx;
}

Value Quantize::forward(Value input, ForwardStep& step) {
  if (step.context) {
    auto& saved = step.context->saved.emplace<QuantizeSaved>();
    if (backward_ && step.pass->quantizing() &&
        step.pass->backward_override() == BackwardOverride::kNone)
      saved.states = step.pass->states();
  }
  const Tensor* x = std::get_if<Tensor>(&input);
  Quantizer* quantizer = x ? input_quantizer(step, x->shape()) : nullptr;
  return quantizer ? Value(quantizer->quantize(*x)) : std::move(input);
}

Value Quantize::backward(Value grad, BackwardStep& step) {
  const Tensor* dy = std::get_if<Tensor>(&grad);
  Quantizer* quantizer = dy ? grad_quantizer(*step.context) : nullptr;
  Value out = quantizer ? Value(quantizer->quantize(*dy)) : std::move(grad);
  step.context->saved.reset();
  return out;
}

Quantizer* Quantize::input_quantizer(const ForwardStep& step,
                                     const Shape&) const {
  if (!forward_ || !step.pass->quantizing()) return nullptr;
  Quantizer& quantizer = step.pass->forward(0);
  const bool columnwise = step.training() && step.pass->backward_override() ==
                                                 BackwardOverride::kNone;
  set_directions(quantizer, true, columnwise);
  return &quantizer;
}

Quantizer* Quantize::grad_quantizer(OperationContext& context) const {
  const auto& saved = context.saved.as<QuantizeSaved>();
  if (!saved.states) return nullptr;
  Quantizer& quantizer = saved.states->backward->at(0);
  set_directions(quantizer, true, true);
  return &quantizer;
}

}  // namespace assay::te::ops
