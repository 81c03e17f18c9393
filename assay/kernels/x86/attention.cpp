// Tiled attention in bf16 with fp32 sums, on AMX tiles or vdpbf16ps.
//
// Both units multiply exactly, add in fp32 and flush subnormals, of operands
// and of sums. pack() therefore refuses subnormal (and non-finite) inputs, and
// the driver takes the fp32 table for such a head. What is left to flush is
// below 2^-126 of a probability or of a logit's gradient.
#include "assay/kernels/x86/attention.h"

#include "assay/kernels/x86/cpu_features.h"
#include "assay/kernels/x86/units.h"

#if ASSAY_X86_UNITS

#include <immintrin.h>

#include <cstring>
#include <limits>

#include "assay/kernels/attention_exp2.h"

// GCC 12 takes its own _mm512_undefined_* for an uninitialised variable.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
// Only code that runs behind has_avx512_bf16() stands below.
#pragma GCC push_options
#pragma GCC target( \
    "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16")

namespace assay {
namespace {

// clang-format off
#include "assay/kernels/x86/attention_products-inl.h"
#include "assay/kernels/x86/attention_pack-inl.h"
#include "assay/kernels/x86/attention_softmax-inl.h"
// clang-format on

}  // namespace
}  // namespace assay

#pragma GCC pop_options
#pragma GCC diagnostic pop

namespace assay {

std::vector<const AttentionTiles*> x86_attention_tiles(
    const AttentionTiles& general) {
  if (!has_avx512_bf16()) return {};
  static const AttentionTiles dot = [&] {
    AttentionTiles t = general;
    t.isa = "avx512_bf16";
    t.element_bytes = 2;
    t.pack = &pack_bf16;
    t.product = &product_dot;
    t.softmax = &softmax_bf16;
    t.gradient = &gradient_bf16;
    t.scale_columns = &scale_columns;
    t.transpose = &transpose_f32;
    return t;
  }();
  static const AttentionTiles amx = [] {
    AttentionTiles t = dot;
    t.isa = "avx512_amx";
    t.enter = &configure_tiles;
    t.leave = &release_tiles;
    t.product = &product_amx;
    return t;
  }();
  if (has_amx_bf16()) return {&amx, &dot};
  return {&dot};
}

}  // namespace assay

#else

namespace assay {

std::vector<const AttentionTiles*> x86_attention_tiles(const AttentionTiles&) {
  return {};
}

}  // namespace assay

#endif
