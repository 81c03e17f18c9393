// A tensor under a name: what a state dict is a list of.
#pragma once

#include <string>

#include "assay/core/tensor.h"

namespace assay::te {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace assay::te
