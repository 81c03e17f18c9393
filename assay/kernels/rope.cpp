#include "assay/kernels/rope.h"

#include <vector>

#include "assay/kernels/ref/ref_rope.h"
#include "assay/kernels/simd/simd_rope.h"

namespace assay {
namespace {

const std::vector<const RopeKernels*>& tables() {
  static const std::vector<const RopeKernels*> all = [] {
    std::vector<const RopeKernels*> found = simd_rope_tables();
    found.push_back(&kRefRope);
    return found;
  }();
  return all;
}

}  // namespace

const RopeKernels& rope_kernels(Device device) {
  return choose_family<RopeKernels>(tables(), device);
}

std::span<const RopeKernels* const> all_rope_kernels() { return tables(); }

}  // namespace assay
