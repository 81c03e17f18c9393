#include "assay/kernels/norm.h"

#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/simd/simd_norm.h"

namespace assay {

std::span<const NormKernels* const> all_norm_kernels() {
  static const std::vector<const NormKernels*> all = [] {
    auto tables = simd_norm_tables();
    tables.push_back(&plain_norm_kernels(InternalPrecision::kF64));
    return tables;
  }();
  return all;
}

const NormKernels& norm_kernels(Device device) {
  return choose_family(all_norm_kernels(), device);
}

}  // namespace assay
