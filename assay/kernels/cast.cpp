// The tables of the casts: vector sets first, plain loops last.
#include "assay/kernels/cast.h"

#include "assay/kernels/ref/ref_cast.h"
#include "assay/kernels/simd/cast.h"

namespace assay {

std::span<const CastKernels* const> all_cast_kernels() {
  static const std::vector<const CastKernels*> all = [] {
    std::vector<const CastKernels*> found = simd_cast_tables();
    found.push_back(&kRefCast);
    return found;
  }();
  return all;
}

const CastKernels& cast_kernels(Device device) {
  static const CastKernels& chosen =
      choose_family(all_cast_kernels(), Device::kCpu);
  return device == Device::kReference ? kRefCast : chosen;
}

}  // namespace assay
