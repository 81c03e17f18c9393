#include "assay/te/modules/norm_linear_core.h"

#include <utility>

#include "assay/te/parallel/collectives.h"

namespace assay::te {

void NormLinearCore::Saved::visit_tensors(const TensorVisitor& visit) const {
  norm.visit_tensors(visit);
  linear.visit_tensors(visit);
}

Tensor NormLinearCore::forward(const QuantizedPass& pass, const Tensor& x,
                               Saved* saved, const LinearCall& call,
                               bool add_bias, Tensor* z) {
  if (saved) saved->requantizer = linear_.input_requantizer(pass);
  Quantizer* q = z ? nullptr : linear_.input_quantizer(pass, x.shape());
  NormCore::Saved* of_norm = saved ? &saved->norm : nullptr;
  LinearInput input;
  if (q) {
    input.quantized = norm_.forward(x, *q, of_norm);
  } else {
    input.tensor = norm_.forward(x, of_norm);
    if (z) *z = *input.tensor;
  }
  // The norm's parameters need dz even where nobody wants dx.
  LinearCall inner = call;
  inner.input_requires_grad |= norm_.requires_grad();
  Tensor y = linear_.forward(pass, std::move(input),
                             saved ? &saved->linear : nullptr, inner, add_bias);
  if (!saved) return y;
  LinearCore::Saved& kept = saved->linear;
  saved->rounded_first = q == nullptr;
  saved->gathered_first =
      kept.input_quantized && linear_.gathers_input() && !kept.input_is_local;
  kept.input.reset();
  kept.input_quantized.reset();
  saved->drops_input = true;
  return y;
}

void NormLinearCore::make_input(Saved& saved, bool rowwise,
                                bool columnwise) const {
  if (!saved.drops_input) return;
  saved.drops_input = false;
  if (!saved.requantizer) {
    saved.linear.input = norm_.forward(saved.norm.x, nullptr);
    return;
  }
  Quantizer& q = *saved.requantizer;
  set_directions(q, rowwise, columnwise);
  if (!saved.rounded_first) {
    saved.linear.input_quantized = norm_.forward(saved.norm.x, q, nullptr);
    return;
  }
  Tensor z = norm_.forward(saved.norm.x, nullptr);
  if (saved.gathered_first)
    z = all_gather_first_dim(z, *linear_.options().tp.group);
  saved.linear.input_quantized = q.quantize(z);
}

Tensor NormLinearCore::forward_again(Saved& saved) {
  make_input(saved, true, true);
  Tensor y = linear_.forward_again(saved.linear);
  auto& z = saved.linear.input_quantized;
  if (z && z->columnwise) z->rowwise.reset();
  return y;
}

Tensor NormLinearCore::backward(LinearGrad dy, Saved& saved,
                                const Tensor* dz_of_caller) {
  const bool decoded = saved.linear.override == BackwardOverride::kDequantized;
  if (saved.linear.need_wgrad) make_input(saved, decoded, !decoded);
  const bool need_dz = saved.linear.need_dgrad;
  Tensor dz = linear_.backward(std::move(dy), saved.linear);
  NormCore::Saved of_norm = std::move(saved.norm);
  saved = {};
  if (!need_dz) return {};
  if (dz_of_caller) add_in_place(dz, *dz_of_caller);
  return norm_.backward(dz, of_norm);
}

}  // namespace assay::te
