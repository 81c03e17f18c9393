// The instruction sets that every vector kernel is compiled for, and how a
// family collects its tables of them. A family's .cpp:
//
//   #include "assay/kernels/simd/targets.h"
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "assay/kernels/simd/<family>.cpp"
//   #include <hwy/foreach_target.h>
//   #include <hwy/highway.h>
//
//   HWY_BEFORE_NAMESPACE();
//   namespace assay::HWY_NAMESPACE {
//   #if ASSAY_VECTOR_TARGET
//   ... kernels ...
//   const XKernels* x_table() {
//     static constexpr XKernels kTable = {ASSAY_ISA_NAME, ...};
//     return &kTable;
//   }
//   #else
//   const XKernels* x_table() { return nullptr; }
//   #endif
//   }
//   HWY_AFTER_NAMESPACE();
//
//   #if HWY_ONCE
//   namespace assay {
//   HWY_EXPORT(x_table);
//   std::vector<const XKernels*> simd_x_tables() {
//     ASSAY_COLLECT_TABLES(XKernels, x_table);
//   }
//   }
//   #endif
#pragma once

#include <vector>

// Fewer sets, less to compile: those without fused multiply-add cannot give
// the same bits, those above AVX-512 BW gain nothing here.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// The sets that have fused multiply-add and vectors of fp64. Evaluated anew
// for every set that foreach_target.h goes through.
#define ASSAY_VECTOR_TARGET \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

#define ASSAY_ISA_NAME \
  (HWY_TARGET == HWY_AVX3 ? "avx512" : HWY_TARGET == HWY_AVX2 ? "avx2" : "neon")

// The body of a function that returns the tables of this machine, best first.
#if defined(__x86_64__) || defined(_M_X64)
#define ASSAY_COLLECT_TABLES(Table, function)                     \
  std::vector<const Table*> tables;                               \
  const auto supported = hwy::SupportedTargets();                 \
  if (supported & HWY_AVX3) tables.push_back(N_AVX3::function()); \
  if (supported & HWY_AVX2) tables.push_back(N_AVX2::function()); \
  return tables
#else
#define ASSAY_COLLECT_TABLES(Table, function) \
  std::vector<const Table*> tables;           \
  if (hwy::SupportedTargets() & HWY_NEON)     \
    tables.push_back(N_NEON::function());     \
  return tables
#endif
