#include "assay/kernels/activation.h"

#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/ref/ref_activation.h"
#include "assay/kernels/simd/simd_activation.h"

namespace assay {

std::span<const ActivationKernels* const> all_activation_kernels() {
  static const std::vector<const ActivationKernels*> all = [] {
    auto tables = simd_activation_tables();
    tables.push_back(&kRefActivationKernels);
    return tables;
  }();
  return all;
}

const ActivationKernels& activation_kernels(Device device) {
  return choose_family(all_activation_kernels(), device);
}

}  // namespace assay
