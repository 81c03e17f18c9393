#include "assay/te/fusible/normalization.h"

#include <algorithm>
#include <utility>

#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/modules/random.h"

namespace assay::te::ops {
namespace {

struct L2Saved {
  Tensor x, rsigma;
  void visit_tensors(const TensorVisitor& visit) const {
    visit(x);
    visit(rsigma);
  }
};

}  // namespace

void Normalization::Saved::visit_tensors(const TensorVisitor& visit) const {
  visit(x);
  if (mean.view.data) visit(mean);
  visit(rsigma);
}

Normalization::Normalization(std::string type, Shape normalized_shape,
                             const NormalizationOptions& options)
    : BasicOperation(std::move(type)),
      normalized_shape_(std::move(normalized_shape)) {
  const bool positive =
      std::all_of(normalized_shape_.begin(), normalized_shape_.end(),
                  [](std::int64_t d) { return d > 0; });
  require(positive && !normalized_shape_.empty(), name(), "normalized_shape",
          to_string(normalized_shape_), "dimensions above 0");
  for (std::int64_t d : normalized_shape_) columns_ *= d;
  options_.eps = options.eps;
  options_.zero_centered_gamma = options.zero_centered_gamma;
  weight_ = &add_vector("weight", options.zero_centered_gamma ? 0 : 1, options);
}

Parameter& Normalization::add_vector(const std::string& name, double value,
                                     const NormalizationOptions& options) {
  Parameter p;
  p.shape = normalized_shape_;
  p.dtype = options.dtype;
  p.device = options.device;
  p.value = Tensor::zeros(options.dtype, p.shape, options.device);
  if (value != 0) constant_init(value)(*p.value, 0);
  return add_parameter(name, std::move(p));
}

Tensor Normalization::vector_of(const Parameter& parameter) const {
  return with_shape(*parameter.value, {columns_});
}

Value Normalization::forward(Value input, ForwardStep& step) {
  Tensor x = tensor_of(input);
  const Shape shape = x.shape();
  const std::size_t dims = normalized_shape_.size();
  const bool fits = shape.size() >= dims &&
                    std::equal(normalized_shape_.rbegin(),
                               normalized_shape_.rend(), shape.rbegin());
  require(fits, name(), "input", "shape " + to_string(shape),
          "last dimensions " + to_string(normalized_shape_));
  // Several dimensions are one to the kernels; their result is not quantised
  // at once, for its last dimension is another.
  if (dims > 1) x = with_shape(x, {x.numel() / columns_, columns_});
  Quantizer* quantizer = dims == 1 ? step.next_quantizer(shape) : nullptr;
  Saved saved{x, {}, {}, shape};
  Value out;
  if (quantizer) {
    NormQuantized n = norm_quantized(*quantizer, x);
    saved.mean = std::move(n.mean);
    saved.rsigma = std::move(n.rsigma);
    out = std::move(n.z);
  } else {
    NormForward n = norm(x);
    saved.mean = std::move(n.mean);
    saved.rsigma = std::move(n.rsigma);
    out = with_shape(n.z, shape);
  }
  if (step.context) step.context->saved.emplace<Saved>() = std::move(saved);
  return out;
}

Value Normalization::backward(Value grad, BackwardStep& step) {
  return backward_add(std::move(grad), step, nullptr);
}

Tensor Normalization::backward_add(Value grad, BackwardStep& step,
                                   const Tensor* add) {
  auto& saved = step.context->saved.as<Saved>();
  const Tensor dz = with_shape(tensor_of(grad), saved.x.shape());
  std::optional<Tensor> residual;
  if (add) residual = with_shape(*add, saved.x.shape());
  const NormBackward grads =
      norm_grad(dz, saved, residual ? &*residual : nullptr);
  const auto give = [&](Parameter& p, const Tensor& gradient) {
    accumulate_grad(p, with_shape(gradient, p.shape));
  };
  give(*weight_, grads.dgamma);
  if (Parameter* bias = bias_parameter()) give(*bias, grads.dbeta);
  Tensor dx = with_shape(grads.dx, saved.shape);
  step.context->saved.reset();
  return dx;
}

LayerNorm::LayerNorm(Shape normalized_shape,
                     const NormalizationOptions& options)
    : Normalization("LayerNorm", std::move(normalized_shape), options),
      bias_(&add_vector("bias", 0, options)) {}

NormForward LayerNorm::norm(const Tensor& x) const {
  return layernorm_forward(x, gamma(), vector_of(*bias_), norm_options());
}

NormQuantized LayerNorm::norm_quantized(Quantizer& quantizer,
                                        const Tensor& x) const {
  return layernorm_quantize(quantizer, x, gamma(), vector_of(*bias_),
                            norm_options());
}

NormBackward LayerNorm::norm_grad(const Tensor& dz, const Saved& s,
                                  const Tensor* add) const {
  return add ? layernorm_backward_add(dz, s.x, *add, s.mean, s.rsigma, gamma(),
                                      norm_options())
             : layernorm_backward(dz, s.x, s.mean, s.rsigma, gamma(),
                                  norm_options());
}

RMSNorm::RMSNorm(Shape normalized_shape, const NormalizationOptions& options)
    : Normalization("RMSNorm", std::move(normalized_shape), options) {}

NormForward RMSNorm::norm(const Tensor& x) const {
  return rmsnorm_forward(x, gamma(), norm_options());
}

NormQuantized RMSNorm::norm_quantized(Quantizer& quantizer,
                                      const Tensor& x) const {
  return rmsnorm_quantize(quantizer, x, gamma(), norm_options());
}

NormBackward RMSNorm::norm_grad(const Tensor& dz, const Saved& s,
                                const Tensor* add) const {
  return add ? rmsnorm_backward_add(dz, s.x, *add, s.rsigma, gamma(),
                                    norm_options())
             : rmsnorm_backward(dz, s.x, s.rsigma, gamma(), norm_options());
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
