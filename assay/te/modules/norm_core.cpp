#include "assay/te/modules/norm_core.h"

#include <algorithm>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/quantize/fused.h"

namespace assay::te {
namespace {

NormOptions op_options(const NormModuleOptions& options) {
  NormOptions o;
  o.eps = options.eps;
  o.zero_centered_gamma = options.zero_centered_gamma;
  return o;
}

Tensor reshaped(Tensor t, const Shape& shape) {
  t.view.shape = shape;
  t.view.strides.clear();
  return t;
}

Tensor flat(const Tensor& t) { return reshaped(contiguous(t), {t.numel()}); }

std::string text_of(const Shape& shape) {
  std::string text;
  for (std::int64_t d : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(d);
  return text;
}

}  // namespace

Normalization parse_normalization(std::string_view text) {
  if (text == "LayerNorm") return Normalization::kLayerNorm;
  require(text == "RMSNorm", "module", "normalization",
          "\"" + std::string(text) + "\"", "LayerNorm or RMSNorm");
  return Normalization::kRMSNorm;
}

void NormCore::Saved::visit_tensors(const TensorVisitor& visit) const {
  for (const Tensor* t : {&x, &mean, &rsigma})
    if (t->owner) visit(*t);
}

NormCore::NormCore(const Module& module, const Add& add,
                   const std::string& prefix, Shape shape, Normalization kind,
                   const NormModuleOptions& options)
    : module_(module),
      shape_(std::move(shape)),
      kind_(kind),
      options_(options) {
  const bool sizes =
      !shape_.empty() && std::all_of(shape_.begin(), shape_.end(),
                                     [](std::int64_t d) { return d > 0; });
  require(sizes, module.name(), "normalized_shape", "[" + text_of(shape_) + "]",
          "positive sizes");
  require_value(options.eps >= 0, module.name(), "eps", options.eps,
                "0 or more");
  require_dtype(module.name(), "params_dtype",
                Tensor::zeros(options.params_dtype, {0}),
                {DType::kF32, DType::kBF16, DType::kF16});
  const auto make = [&](const char* name, double value) {
    Tensor t = Tensor::empty(options.params_dtype, shape_);
    constant_init(value)(t, 0);
    t.device = options.device;
    Parameter p = make_parameter(std::move(t));
    p.sequence_parallel = options.sequence_parallel;
    return &add(prefix + name, std::move(p));
  };
  weight_ = make("weight", options.zero_centered_gamma ? 0 : 1);
  if (!is_rms()) bias_ = make("bias", 0);
}

bool NormCore::requires_grad() const {
  return weight_->requires_grad || (bias_ && bias_->requires_grad);
}

Tensor NormCore::as_rows(const Tensor& x) const {
  const Shape& s = x.shape();
  const bool fits = s.size() >= shape_.size() &&
                    std::equal(shape_.rbegin(), shape_.rend(), s.rbegin());
  require(fits, module_.name(), "input", "shape [" + text_of(s) + "]",
          "[..., " + text_of(shape_) + "]");
  require_high_precision(module_.name(), "input", x);
  Tensor rows = contiguous(x);
  if (shape_.size() == 1) return rows;
  const std::int64_t columns = weight_->value->numel();
  return reshaped(std::move(rows), {rows.numel() / columns, columns});
}

Tensor NormCore::forward(const Tensor& x, Saved* saved) const {
  const Tensor rows = as_rows(x);
  const Tensor gamma = flat(*weight_->value);
  NormForward f = is_rms() ? rmsnorm_forward(rows, gamma, op_options(options_))
                           : layernorm_forward(rows, gamma, flat(*bias_->value),
                                               op_options(options_));
  if (saved) *saved = {contiguous(x), std::move(f.mean), std::move(f.rsigma)};
  return reshaped(std::move(f.z), x.shape());
}

QuantizedTensor NormCore::forward(const Tensor& x, Quantizer& quantizer,
                                  Saved* saved) const {
  const Tensor rows = as_rows(x);
  const Tensor gamma = flat(*weight_->value);
  NormQuantized f =
      is_rms() ? rmsnorm_quantize(quantizer, rows, gamma, op_options(options_))
               : layernorm_quantize(quantizer, rows, gamma, flat(*bias_->value),
                                    op_options(options_));
  if (saved) *saved = {contiguous(x), std::move(f.mean), std::move(f.rsigma)};
  f.z.shape = x.shape();
  return std::move(f.z);
}

NormBackward NormCore::gradients(const Tensor& dz, const Saved& kept,
                                 const Tensor* add) const {
  const NormOptions options = op_options(options_);
  const Tensor x = as_rows(kept.x), d = as_rows(dz);
  const Tensor gamma = flat(*weight_->value);
  if (!add) {
    return is_rms() ? rmsnorm_backward(d, x, kept.rsigma, gamma, options)
                    : layernorm_backward(d, x, kept.mean, kept.rsigma, gamma,
                                         options);
  }
  const Tensor a = as_rows(*add);
  return is_rms() ? rmsnorm_backward_add(d, x, a, kept.rsigma, gamma, options)
                  : layernorm_backward_add(d, x, a, kept.mean, kept.rsigma,
                                           gamma, options);
}

Tensor NormCore::backward(const Tensor& dz, Saved& saved, const Tensor* add) {
  require(!saved.x.shape().empty(), module_.name(), "context",
          "not of a forward pass, or used up", "that of one");
  require_dtype(module_.name(), "grad_output", dz, {saved.x.dtype()});
  require_shape(module_.name(), "grad_output", dz, saved.x.shape());
  const Saved kept = std::exchange(saved, {});
  NormBackward b = gradients(dz, kept, add);
  const bool fuse = options_.fuse_wgrad_accumulation;
  accumulate_grad(*weight_, reshaped(std::move(b.dgamma), shape_), fuse);
  if (bias_)
    accumulate_grad(*bias_, reshaped(std::move(b.dbeta), shape_), fuse);
  return reshaped(std::move(b.dx), kept.x.shape());
}

}  // namespace assay::te
