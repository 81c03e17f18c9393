#include "assay/kernels/dropout.h"

#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/ref/ref_dropout.h"
#include "assay/kernels/simd/simd_dropout.h"

namespace assay {

std::span<const DropoutKernels* const> all_dropout_kernels() {
  static const std::vector<const DropoutKernels*> all = [] {
    auto tables = simd_dropout_tables();
    tables.push_back(&kRefDropoutKernels);
    return tables;
  }();
  return all;
}

const DropoutKernels& dropout_kernels(Device device) {
  return choose_family(all_dropout_kernels(), device);
}

}  // namespace assay
