// Copies and transposes in vectors, once for every instruction set.
#include "assay/kernels/simd/simd_movement.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/simd_movement.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/transpose-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const MovementKernels* movement_table() {
  static constexpr MovementKernels kTable = {
      ASSAY_ISA_NAME,
      &copy_bytes,
      &Transpose<std::uint8_t>::run,
      &Transpose<std::uint16_t>::run,
      &Transpose<std::uint32_t>::run,
      &Transpose<std::uint64_t>::run,
  };
  return &kTable;
}

#else

const MovementKernels* movement_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(movement_table);

std::vector<const MovementKernels*> simd_movement_tables() {
  ASSAY_COLLECT_TABLES(MovementKernels, movement_table);
}

}  // namespace assay
#endif
