// Merging and scoring in vectors, once for every instruction set.
#include "assay/kernels/simd/simd_moe.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/simd_moe.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "assay/kernels/top_k_key.h"

#if ASSAY_VECTOR_TARGET
#include <hwy/contrib/math/math-inl.h>
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/partial-inl.h"
#include "assay/kernels/simd/exp-inl.h"
#include "assay/kernels/simd/moe_rows-inl.h"
#include "assay/kernels/simd/moe_scores-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const MoeKernels* moe_table() {
  static constexpr MoeKernels kTable = {
      ASSAY_ISA_NAME,
      {MoeRows<StoredF32>::kTable, MoeRows<StoredBf16>::kTable,
       MoeRows<StoredF16>::kTable},
      &softmax_scores,
      &sigmoid_scores,
      &softplus_root_scores,
      &top_k_scores,
  };
  return &kTable;
}

#else

const MoeKernels* moe_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(moe_table);

std::vector<const MoeKernels*> simd_moe_tables() {
  ASSAY_COLLECT_TABLES(MoeKernels, moe_table);
}

}  // namespace assay
#endif
