// The parameters of modules as an optimizer takes them, and their gradients.
#pragma once

#include <vector>

#include "assay/te/modules/module.h"
#include "assay/te/optim/optimizer.h"
#include "assay/te/parallel/communicator.h"

namespace assay::te {

// Those of `module` that require a gradient, in the order of parameters();
// they share their bytes with the module, which must outlive the optimizer.
// Masters are copies: a module loaded after its optimizer was made goes back to
// what was there before with the next step, unless the optimizer is loaded too.
std::vector<OptimizerParameter> trainable(Module& module);

// Their gradients in the same order: main_grad where there is one, else grad.
// A grad beside a main_grad, of a module that does not add to main_grad itself,
// is added to it first and is absent then.
// Throws Error{kUsage} naming the first parameter that has neither: backward
// did not reach it.
std::vector<Tensor> gradients(Module& module);

// After backward, over the tensor parallel group: sums the gradients that each
// rank has of its own tokens alone (Parameter::sequence_parallel; none without
// sequence parallelism). In place, in the order of the ranks (collectives.h).
// Collective; those that backward did not reach throw as gradients() does.
void sum_sequence_parallel_gradients(Module& module, Communicator& group);

}  // namespace assay::te
