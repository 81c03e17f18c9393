#include "assay/te/optim/grad_clip.h"

#include <cmath>
#include <vector>

#include "assay/te/check.h"
#include "assay/te/optim/multi_tensor.h"

namespace assay::te {

double grad_norm(std::span<const Tensor> grads) {
  if (grads.empty()) return 0;
  return static_cast<double>(*multi_tensor_l2norm(grads).total.data<float>());
}

void clip_grads(std::span<Tensor> grads, double max_norm, double total_norm) {
  require_value(max_norm > 0, "clip_grads", "max_norm", max_norm,
                "a number above 0");
  if (!std::isfinite(total_norm)) return;
  const auto factor = static_cast<float>(max_norm / (total_norm + 1e-6));
  if (factor >= 1) return;
  const std::vector<Tensor> inputs(grads.begin(), grads.end());
  multi_tensor_scale(inputs, grads, factor);
}

double clip_grad_norm(std::span<Tensor> grads, double max_norm) {
  const double norm = grad_norm(grads);
  clip_grads(grads, max_norm, norm);
  return norm;
}

}  // namespace assay::te
