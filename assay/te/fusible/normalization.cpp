#include "assay/te/fusible/normalization.h"

#include <utility>

namespace assay::te::ops {
namespace {

struct L2Saved {
  Tensor x, rsigma;
  void visit_tensors(const TensorVisitor& visit) const {
    visit(x);
    visit(rsigma);
  }
};

NormModuleOptions module_options(const NormalizationOptions& options) {
  NormModuleOptions out;
  out.eps = options.eps;
  out.zero_centered_gamma = options.zero_centered_gamma;
  out.params_dtype = options.dtype;
  out.device = options.device;
  return out;
}

}  // namespace

NormOperation::NormOperation(std::string type, Shape normalized_shape,
                             te::Normalization kind,
                             const NormalizationOptions& options)
    : BasicOperation(std::move(type)),
      core_(
          *this,
          [this](std::string local, Parameter p) -> Parameter& {
            return add_parameter(std::move(local), std::move(p));
          },
          "", std::move(normalized_shape), kind, module_options(options)) {}

Value NormOperation::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  NormCore::Saved* saved =
      step.context ? &step.context->saved.emplace<NormCore::Saved>() : nullptr;
  if (Quantizer* quantizer = step.next_quantizer(x.shape()))
    return core_.forward(x, *quantizer, saved);
  return core_.forward(x, saved);
}

Value NormOperation::backward(Value grad, BackwardStep& step) {
  return backward_add(grad, step, nullptr);
}

Tensor NormOperation::backward_add(const Value& grad, BackwardStep& step,
                                   const Tensor* add) {
  Tensor dx = core_.backward(tensor_of(grad),
                             step.context->saved.as<NormCore::Saved>(), add);
  step.context->saved.reset();
  return dx;
}

L2Normalization::L2Normalization(float eps)
    : BasicOperation("L2Normalization") {
  options_.eps = eps;
}

Value L2Normalization::forward(Value input, ForwardStep& step) {
  const Tensor x = tensor_of(input);
  L2NormForward out = l2_normalization_forward(x, options_);
  if (step.context)
    step.context->saved.emplace<L2Saved>() = {x, std::move(out.rsigma)};
  return std::move(out.y);
}

Value L2Normalization::backward(Value grad, BackwardStep& step) {
  const auto& saved = step.context->saved.as<L2Saved>();
  Tensor dx = l2_normalization_backward(tensor_of(grad), saved.x, saved.rsigma,
                                        options_);
  step.context->saved.reset();
  return dx;
}

}  // namespace assay::te::ops
