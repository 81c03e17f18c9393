// Compiles the fp32 GEMM unit and the epilogue for every instruction set.
#include "assay/kernels/simd/gemm.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/gemm.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// After highway.h.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "assay/kernels/decode.h"
#include "assay/kernels/gemm_value.h"
#include "assay/numerics/float_format.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/exp-inl.h"
#include "assay/kernels/simd/gelu-inl.h"
#include "assay/kernels/simd/gemm_tile-inl.h"
#include "assay/kernels/simd/gemm_pack-inl.h"
#include "assay/kernels/simd/gemm_epilogue-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

void no_state() {}

const GemmVectorUnits* gemm_units() {
  static constexpr GemmVectorUnits kUnits = {
      ASSAY_ISA_NAME,
      {.name = "fp32",
       .rows = kGemmRows,
       .columns = kGemmColumns,
       .k_step = 1,
       .chunk = kGemmChunk,
       .element = sizeof(float),
       .prefetch = kTilePrefetch,
       .pack_rows = &gemm_pack<kGemmRows>,
       .pack_columns = &gemm_pack<kGemmColumns>,
       .tile = &gemm_tile,
       .scaled_tile = &gemm_scaled_tile,
       .enter = &no_state,
       .leave = &no_state},
      &gemm_epilogue};
  return &kUnits;
}

#else

const GemmVectorUnits* gemm_units() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(gemm_units);

std::vector<const GemmVectorUnits*> simd_gemm_units() {
  ASSAY_COLLECT_TABLES(GemmVectorUnits, gemm_units);
}

}  // namespace assay
#endif
