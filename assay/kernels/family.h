// How an operator family (norms, casts, softmax ...) finds its kernels: one
// struct of function pointers per family, one instance per instruction set.
//
// A family's header declares the struct, with `const char* isa` first, and
//   const XKernels& x_kernels(Device device);
//   std::span<const XKernels* const> all_x_kernels();   // for the tests
// ref/ holds the plain loops in fp64: the table of Device::kReference, and of
// ASSAY_ISA=scalar. simd/ holds the Highway kernels.
#pragma once

#include <span>
#include <string_view>

#include "assay/core/device.h"
#include "assay/kernels/kernels.h"

namespace assay {

// The table of `tables` (best first, the plain loops last and called "scalar")
// for the instruction set that kernels() runs; the plain loops where the
// family has no table for it, and for Device::kReference. Thread-safe.
template <typename Table>
const Table& choose_family(std::span<const Table* const> tables,
                           Device device) {
  if (device == Device::kReference) return *tables.back();
  const std::string_view isa = kernels().isa;
  for (const Table* table : tables)
    if (isa == table->isa) return *table;
  return *tables.back();
}

}  // namespace assay
