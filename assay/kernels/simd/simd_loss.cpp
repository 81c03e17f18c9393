// Rows of logits in vectors, once for every instruction set.
#include "assay/kernels/simd/simd_loss.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/simd_loss.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>
#include <limits>

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/partial-inl.h"
#include "assay/kernels/simd/exp-inl.h"
#include "assay/kernels/simd/loss_rows-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const LossKernels* loss_table() {
  static constexpr LossKernels kTable = {
      ASSAY_ISA_NAME,
      {LossRows<StoredF32>::kTable, LossRows<StoredBf16>::kTable,
       LossRows<StoredF16>::kTable},
  };
  return &kTable;
}

#else

const LossKernels* loss_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(loss_table);

std::vector<const LossKernels*> simd_loss_tables() {
  ASSAY_COLLECT_TABLES(LossKernels, loss_table);
}

}  // namespace assay
#endif
