#include "assay/kernels/softmax.h"

#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/simd/simd_softmax.h"

namespace assay {

std::span<const SoftmaxKernels* const> all_softmax_kernels() {
  static const std::vector<const SoftmaxKernels*> all = [] {
    auto tables = simd_softmax_tables();
    tables.push_back(&plain_softmax_kernels(InternalPrecision::kF64));
    return tables;
  }();
  return all;
}

const SoftmaxKernels& softmax_kernels(Device device) {
  return choose_family(all_softmax_kernels(), device);
}

}  // namespace assay
