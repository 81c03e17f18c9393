// Compiles the vector kernels once for every instruction set and hands out
// their tables.
#include "assay/kernels/simd/simd_kernels.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/simd_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "assay/kernels/detail_constants.h"
#include "assay/kernels/scalar_half.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/chunk-inl.h"
#include "assay/kernels/simd/widen-inl.h"
#include "assay/kernels/simd/pair_f64-inl.h"
#include "assay/kernels/simd/pair_f32-inl.h"
#include "assay/kernels/simd/pair_half-inl.h"
#include "assay/kernels/simd/histogram-inl.h"
#include "assay/kernels/simd/detail-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const KernelTable* table() {
  static constexpr KernelTable kTable = {
      ASSAY_ISA_NAME,        &PairF64::run,
      &PairF32::run,         &PairHalf<Bf16>::run,
      &PairHalf<F16>::run,   &Detail<LoadF64>::run,
      &Detail<LoadF32>::run, &Detail<LoadBf16>::run,
      &Detail<LoadF16>::run, &widen_f32,
      &widen_bf16,           &widen_f16,
  };
  return &kTable;
}

#else

const KernelTable* table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(table);

std::vector<const KernelTable*> simd_tables() {
  ASSAY_COLLECT_TABLES(KernelTable, table);
}

}  // namespace assay
#endif
