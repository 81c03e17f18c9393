// Compiles the rotary embedding once for every instruction set.
#include "assay/kernels/rope.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/rope.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "assay/kernels/rope_partner.h"
#include "assay/kernels/scalar_half.h"
#include "assay/kernels/simd/simd_rope.h"
#include "assay/numerics/float_format.h"

#if ASSAY_VECTOR_TARGET
// clang-format off
#include "assay/kernels/simd/sincos-inl.h"
#include "assay/kernels/simd/rope-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const RopeKernels* rope_table() {
  static constexpr RopeKernels kTable = {ASSAY_ISA_NAME, sizeof(float),
                                         &rope_prepare, &rope_rotate};
  return &kTable;
}

#else

const RopeKernels* rope_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(rope_table);

std::vector<const RopeKernels*> simd_rope_tables() {
  ASSAY_COLLECT_TABLES(RopeKernels, rope_table);
}

}  // namespace assay
#endif
