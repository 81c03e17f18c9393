// Compiles the block formats' kernels once for every instruction set and hands
// out their tables.
#include "assay/kernels/simd/block_quant.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/block_quant.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "assay/kernels/cast.h"
#include "assay/kernels/ref/ref_block_quant.h"
#include "assay/kernels/scalar_half.h"
#include "assay/numerics/float_format.h"
#include "assay/numerics/mxfp8_scale.h"
#include "assay/numerics/nvfp4_scale.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/cast_row-inl.h"
#include "assay/kernels/simd/cast_fp8-inl.h"
#include "assay/kernels/simd/cast_bf16-inl.h"
#include "assay/kernels/simd/cast_format-inl.h"
#include "assay/kernels/simd/bf16_fp8-inl.h"
#include "assay/kernels/simd/block_max-inl.h"
#include "assay/kernels/simd/mxfp8-inl.h"
#include "assay/kernels/simd/philox-inl.h"
#include "assay/kernels/simd/nvfp4-inl.h"
#include "assay/kernels/simd/hadamard-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const BlockQuantKernels* block_quant_table() {
  static const BlockQuantKernels kTable = {
      ASSAY_ISA_NAME, &mxfp8_quantize, &mxfp8_decode,       &nvfp4_quantize,
      &nvfp4_decode,  &hadamard16,     &hadamard16_columns,
  };
  return &kTable;
}

#else

const BlockQuantKernels* block_quant_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(block_quant_table);

std::vector<const BlockQuantKernels*> simd_block_quant_tables() {
  ASSAY_COLLECT_TABLES(BlockQuantKernels, block_quant_table);
}

}  // namespace assay
#endif
