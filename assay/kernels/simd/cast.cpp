// Compiles the vector casts once for every instruction set and hands out their
// tables.
#include "assay/kernels/simd/cast.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/cast.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "assay/kernels/scalar_half.h"
#include "assay/numerics/float_format.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/cast_row-inl.h"
#include "assay/kernels/simd/cast_fp8-inl.h"
#include "assay/kernels/simd/cast_bf16-inl.h"
#include "assay/kernels/simd/cast_format-inl.h"
#include "assay/kernels/simd/transpose_bytes-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const CastKernels* cast_table() {
  constexpr std::make_index_sequence<kCastFormats.size()> kAll;
  static constexpr CastKernels kTable = {
      ASSAY_ISA_NAME,           cast_type<RowF32>(kAll),
      cast_type<RowBf16>(kAll), cast_type<RowF16>(kAll),
      &round_row<RowBf16>,      &round_row<RowF16>,
      &transpose_bytes};
  return &kTable;
}

#else

const CastKernels* cast_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(cast_table);

std::vector<const CastKernels*> simd_cast_tables() {
  ASSAY_COLLECT_TABLES(CastKernels, cast_table);
}

}  // namespace assay
#endif
