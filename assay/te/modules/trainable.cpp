#include "assay/te/modules/trainable.h"

#include "assay/te/check.h"
#include "assay/te/parallel/collectives.h"

namespace assay::te {
namespace {

const Tensor& gradient_of(const Module& module, const NamedParameter& p) {
  auto &main = p.parameter->main_grad, &own = p.parameter->grad;
  if (main && own) {
    add_in_place(*main, *own);
    own.reset();
  }
  const auto& grad = main ? main : own;
  require(grad.has_value(), module.name(), p.name, "no gradient",
          "one from a backward pass");
  return *grad;
}

}  // namespace

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
  for (const NamedParameter& p : module.parameters())
    if (p.parameter->requires_grad) out.push_back(gradient_of(module, p));
  return out;
}

void sum_sequence_parallel_gradients(Module& module, Communicator& group) {
  for (const NamedParameter& p : module.parameters()) {
    if (!p.parameter->requires_grad || !p.parameter->sequence_parallel)
      continue;
    Tensor gradient = gradient_of(module, p);
    all_reduce_sum_in_place(gradient, group);
  }
}

}  // namespace assay::te
