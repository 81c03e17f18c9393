// The parameters of modules as an optimizer takes them, and their gradients.
#pragma once

#include <vector>

#include "assay/te/modules/module.h"
#include "assay/te/optim/optimizer.h"

namespace assay::te {

// Those of `module` that require a gradient, in the order of parameters();
// they share their bytes with the module, which must outlive the optimizer.
std::vector<OptimizerParameter> trainable(Module& module);

// Their gradients in the same order: main_grad where there is one, else grad.
// Throws Error{kUsage} naming the first parameter that has neither: backward
// did not reach it.
std::vector<Tensor> gradients(Module& module);

}  // namespace assay::te
