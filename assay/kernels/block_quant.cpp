// The tables of the block formats: vector sets first, plain loops last.
#include "assay/kernels/block_quant.h"

#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/ref/ref_block_quant.h"
#include "assay/kernels/simd/block_quant.h"

namespace assay {

std::span<const BlockQuantKernels* const> all_block_quant_kernels() {
  static const std::vector<const BlockQuantKernels*> all = [] {
    std::vector<const BlockQuantKernels*> found = simd_block_quant_tables();
    found.push_back(&kRefBlockQuant);
    return found;
  }();
  return all;
}

const BlockQuantKernels& block_quant_kernels(Device device) {
  static const BlockQuantKernels& chosen =
      choose_family(all_block_quant_kernels(), Device::kCpu);
  return device == Device::kReference ? kRefBlockQuant : chosen;
}

}  // namespace assay
