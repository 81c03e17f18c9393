// Compiles the fp32 kernels of tiled attention once per instruction set.
#include "assay/kernels/simd/attention.h"

#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/attention.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "assay/kernels/attention_exp2.h"
#include "assay/kernels/scalar_half.h"
#include "assay/numerics/float_format.h"

#undef ASSAY_VECTOR_TARGET
#define ASSAY_VECTOR_TARGET \
  (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON)

#if ASSAY_VECTOR_TARGET
// clang-format off
#include "assay/kernels/simd/attention_math-inl.h"
#include "assay/kernels/simd/attention_memory-inl.h"
#include "assay/kernels/simd/attention_tiles-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

const AttentionTiles* attention_table() {
  static constexpr AttentionTiles kTable = {
      .isa = HWY_TARGET == HWY_AVX3   ? "avx512"
             : HWY_TARGET == HWY_AVX2 ? "avx2"
                                      : "neon",
      .element_bytes = 4,
      .enter = [] {},
      .leave = [] {},
      .pack = &pack_f32,
      .product = &product_f32,
      .softmax = &softmax_tile,
      .gradient = &gradient_tile,
      .scale_columns = &scale_columns,
      .transpose = &transpose_f32,
      .store = &store_rows,
      .row_dots = &row_dots,
  };
  return &kTable;
}

#else

const AttentionTiles* attention_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(attention_table);

std::vector<const AttentionTiles*> simd_attention_tiles() {
  std::vector<const AttentionTiles*> tables;
  const auto supported = hwy::SupportedTargets();
#if HWY_ARCH_X86
  if (supported & HWY_AVX3) tables.push_back(N_AVX3::attention_table());
  if (supported & HWY_AVX2) tables.push_back(N_AVX2::attention_table());
#elif HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) tables.push_back(N_NEON::attention_table());
#endif
  return tables;
}

}  // namespace assay
#endif
