// Residual connections as plain loops, and the choice between all tables.
#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/ref/ref_stored.h"
#include "assay/kernels/residual.h"
#include "assay/kernels/simd/simd_residual.h"

namespace assay {
namespace {

void add(const ResidualRun& r) {
  for (std::int64_t i = 0; i < r.n; ++i) {
    double value = 0;
    if (r.mask == nullptr || (r.mask[i / 8] >> i % 8 & 1) != 0) {
      value = ref::load(r.dtype, r.x, i);
      if (r.bias != nullptr) value += ref::load(r.dtype, r.bias, i);
      value *= static_cast<double>(r.scale);
    }
    if (r.residual != nullptr) value += ref::load(r.dtype, r.residual, i);
    ref::store(r.dtype, value, r.out, i);
  }
}

constexpr ResidualKernels kScalar = {"scalar", &add};

}  // namespace

std::span<const ResidualKernels* const> all_residual_kernels() {
  static const std::vector<const ResidualKernels*> all = [] {
    auto tables = simd_residual_tables();
    tables.push_back(&kScalar);
    return tables;
  }();
  return all;
}

const ResidualKernels& residual_kernels(Device device) {
  return choose_family(all_residual_kernels(), device);
}

}  // namespace assay
