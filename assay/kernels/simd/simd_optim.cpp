// Optimizers and norms in vectors, once for every instruction set.
#include "assay/kernels/simd/simd_optim.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/simd_optim.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "assay/kernels/remainder.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/partial-inl.h"
#include "assay/kernels/simd/optim-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const OptimKernels* optim_table() {
  static constexpr OptimKernels kTable = {
      ASSAY_ISA_NAME,       &adam_vectors,   &sgd_vectors,  &scale_vectors,
      &sum_squares_vectors, &absmax_vectors, &join_vectors, &split_vectors,
  };
  return &kTable;
}

#else

const OptimKernels* optim_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(optim_table);

std::vector<const OptimKernels*> simd_optim_tables() {
  ASSAY_COLLECT_TABLES(OptimKernels, optim_table);
}

}  // namespace assay
#endif
