#include "assay/te/modules/trainable.h"

#include "assay/te/check.h"

namespace assay::te {

std::vector<OptimizerParameter> trainable(Module& module) {
  std::vector<OptimizerParameter> out;
  for (const NamedParameter& p : module.parameters()) {
    if (!p.parameter->requires_grad) continue;
    OptimizerParameter one{.name = p.name};
    if (p.parameter->value) {
      one.value = *p.parameter->value;
    } else {
      one.quantized = p.parameter->quantized;
      one.quantizer = [from = p.parameter] { return from->quantizer; };
      one.high_precision_init = p.parameter->high_precision_init;
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<Tensor> gradients(Module& module) {
  std::vector<Tensor> out;
  for (const NamedParameter& p : module.parameters()) {
    if (!p.parameter->requires_grad) continue;
    const auto& grad =
        p.parameter->main_grad ? p.parameter->main_grad : p.parameter->grad;
    require(grad.has_value(), module.name(), p.name, "no gradient",
            "one from a backward pass");
    out.push_back(*grad);
  }
  return out;
}

}  // namespace assay::te
