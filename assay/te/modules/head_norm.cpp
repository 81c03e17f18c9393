#include "assay/te/modules/head_norm.h"

#include <string>

#include "assay/te/check.h"
#include "assay/te/ops/norm.h"

namespace assay::te {

QkNormType parse_qk_norm_type(std::string_view text) {
  if (text.empty()) return QkNormType::kNone;
  if (text == "L2Normalization") return QkNormType::kL2Normalization;
  if (text == "RMSNorm") return QkNormType::kRMSNorm;
  if (text == "LayerNorm") return QkNormType::kLayerNorm;
  fail("MultiheadAttention", "qk_norm_type", std::string(text),
       "L2Normalization, RMSNorm or LayerNorm");
}

void HeadNorm::Context::visit_tensors(const TensorVisitor& visit) const {
  norm.visit_tensors(visit);
  if (x.numel() == 0) return;
  visit(x);
  visit(rsigma);
}

HeadNorm::HeadNorm(QkNormType type, std::int64_t channels,
                   const NormModuleOptions& options)
    : eps_(options.eps) {
  if (type == QkNormType::kRMSNorm)
    norm_ = std::make_unique<RMSNorm>(channels, options);
  if (type == QkNormType::kLayerNorm)
    norm_ = std::make_unique<LayerNorm>(channels, options);
}

Tensor HeadNorm::forward(const Tensor& x, Context* context) {
  if (norm_) return norm_->forward(x, context ? &context->norm : nullptr);
  L2NormForward out = l2_normalization_forward(x, {.eps = eps_});
  if (context) {
    context->x = x;
    context->rsigma = std::move(out.rsigma);
  }
  return std::move(out.y);
}

Tensor HeadNorm::backward(const Tensor& dy, Context& context) {
  if (norm_) return norm_->backward(dy, context.norm);
  Tensor dx =
      l2_normalization_backward(dy, context.x, context.rsigma, {.eps = eps_});
  context = {};
  return dx;
}

}  // namespace assay::te
