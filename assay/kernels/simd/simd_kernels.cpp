// Compiles the vector kernels once for every instruction set and hands out
// their tables.
#include "assay/kernels/simd/simd_kernels.h"

// Fewer sets, less to compile: those without fused multiply-add cannot give
// the same bits, those above AVX-512 BW gain nothing here.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
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

// The sets that have fused multiply-add and vectors of fp64.
#undef ASSAY_VECTOR_TARGET
#define ASSAY_VECTOR_TARGET \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

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
      HWY_TARGET == HWY_AVX3   ? "avx512"
      : HWY_TARGET == HWY_AVX2 ? "avx2"
                               : "neon",
      &PairF64::run,
      &PairF32::run,
      &PairHalf<Bf16>::run,
      &PairHalf<F16>::run,
      &Detail<LoadF64>::run,
      &Detail<LoadF32>::run,
      &Detail<LoadBf16>::run,
      &Detail<LoadF16>::run,
      &widen_f32,
      &widen_bf16,
      &widen_f16,
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
  std::vector<const KernelTable*> tables;
  const auto supported = hwy::SupportedTargets();
#if HWY_ARCH_X86
  if (supported & HWY_AVX3) tables.push_back(N_AVX3::table());
  if (supported & HWY_AVX2) tables.push_back(N_AVX2::table());
#elif HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) tables.push_back(N_NEON::table());
#endif
  return tables;
}

}  // namespace assay
#endif
