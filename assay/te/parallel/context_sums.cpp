#include "assay/te/parallel/context_sums.h"

#include <cmath>

#include "assay/te/ops/residual.h"
#include "assay/te/quantize/identity.h"

namespace assay::te {
namespace {

Tensor f32(const Tensor& x) { return convert_high_precision(x, DType::kF32); }

bool is_there(const Tensor& t) { return t.view.data != nullptr; }

}  // namespace

Tensor maxima(const Tensor& a, const Tensor& b) {
  Tensor out = Tensor::empty(DType::kF32, a.shape(), a.device);
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const float x = a.data<float>()[i], y = b.data<float>()[i];
    out.mutable_data<float>()[i] = y > x || std::isnan(y) ? y : x;
  }
  return out;
}

void ResultSum::add(const AttentionResult& part) {
  if (is_there(part.max_logit))
    max_logit_ = empty_ ? part.max_logit : maxima(max_logit_, part.max_logit);
  const AttentionPartial next{f32(part.out), part.lse};
  sum_ = empty_ ? next : merge_attention(sum_, next, QkvFormat::kThd);
  empty_ = false;
}

AttentionResult ResultSum::total(DType dtype) const {
  return {convert_high_precision(sum_.out, dtype), sum_.lse, max_logit_};
}

void GradientSum::add(const Tensor& part) {
  sum_ = sum_ ? residual_add(*sum_, f32(part)) : f32(part);
}

Tensor GradientSum::total(const Shape& shape, Device device) const {
  return sum_ ? *sum_ : Tensor::zeros(DType::kF32, shape, device);
}

}  // namespace assay::te
