// Picks the kernel table of this machine, or the one ASSAY_ISA names.
#include <cstdlib>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/kernels/kernels.h"
#include "assay/kernels/ref/ref_kernels.h"
#include "assay/kernels/simd/simd_kernels.h"

namespace assay {
namespace {

const std::vector<const KernelTable*>& tables() {
  static const std::vector<const KernelTable*> all = [] {
    std::vector<const KernelTable*> found = simd_tables();
    found.push_back(&kRefKernels);
    return found;
  }();
  return all;
}

const KernelTable& choose() {
  const char* forced = std::getenv("ASSAY_ISA");
  if (forced == nullptr || *forced == '\0') return *tables().front();
  return kernels_for(forced);
}

}  // namespace

std::span<const KernelTable* const> all_kernels() { return tables(); }

const KernelTable& kernels_for(std::string_view isa) {
  std::string names;
  for (const KernelTable* table : tables()) {
    if (isa == table->isa) return *table;
    names += names.empty() ? "" : ", ";
    names += table->isa;
  }
  throw Error(Code::kUsage,
              "ASSAY_ISA: found \"" + std::string(isa) +
                  "\", expected one that this machine has: " + names);
}

const KernelTable& kernels() {
  static const KernelTable& chosen = choose();
  return chosen;
}

}  // namespace assay
