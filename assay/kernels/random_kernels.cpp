#include "assay/kernels/random_kernels.h"

#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/ref/ref_random.h"
#include "assay/kernels/simd/simd_random.h"

namespace assay {

std::span<const RandomKernels* const> all_random_kernels() {
  static const std::vector<const RandomKernels*> all = [] {
    auto tables = simd_random_tables();
    tables.push_back(&kRefRandomKernels);
    return tables;
  }();
  return all;
}

const RandomKernels& random_kernels(Device device) {
  return choose_family(all_random_kernels(), device);
}

}  // namespace assay
