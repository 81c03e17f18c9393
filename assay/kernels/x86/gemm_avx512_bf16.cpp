// The AVX512_BF16 unit: 32 x 32 sums, eight rows at a time in registers.
#include "assay/kernels/x86/cpu_features.h"
#include "assay/kernels/x86/gemm_bf16.h"
#include "assay/kernels/x86/units.h"

#if ASSAY_X86_UNITS
// GCC 12 warns of its own headers (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <cstdint>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")

namespace assay {
namespace {

constexpr int kRows = 8;
constexpr int kTileBytes = 1024;

void no_state() {}

struct Sums {
  __m512 v[kRows][2];
};

inline __m512bh bf16(__m512i v) { return reinterpret_cast<__m512bh>(v); }

// Adds the products of k elements of kRows rows from `first` on.
inline void add_products(const std::byte* rows, const std::byte* columns,
                         std::int64_t k, Sums& sums) {
  for (; k > 0; k -= kBf16Step) {
    for (int p = 0; p < kBf16Step / 2; ++p) {
      const __m512i c0 = _mm512_load_si512(columns + p * 64);
      const __m512i c1 = _mm512_load_si512(columns + kTileBytes + p * 64);
      for (int r = 0; r < kRows; ++r) {
        const __m512i pair =
            _mm512_set1_epi32(reinterpret_cast<const int*>(rows + r * 64)[p]);
        sums.v[r][0] = _mm512_dpbf16_ps(sums.v[r][0], bf16(pair), bf16(c0));
        sums.v[r][1] = _mm512_dpbf16_ps(sums.v[r][1], bf16(pair), bf16(c1));
      }
    }
    rows += kBf16StepBytes;
    columns += kBf16StepBytes;
  }
}

void tile(const std::byte* rows, const std::byte* columns, std::int64_t k,
          bool add, const std::byte*, float* acc) {
  for (int first = 0; first < kBf16Panel; first += kRows) {
    float* at = acc + first * kBf16Panel;
    Sums sums;
    for (int i = 0; i < 2 * kRows; ++i)
      sums.v[i / 2][i % 2] =
          add ? _mm512_load_ps(at + i * 16) : _mm512_setzero_ps();
    add_products(rows + first * 64, columns, k, sums);
    for (int i = 0; i < 2 * kRows; ++i)
      _mm512_store_ps(at + i * 16, sums.v[i / 2][i % 2]);
  }
}

inline void scaled_block(const std::byte* rows, const std::byte* columns,
                         std::int64_t k, bool add, const GemmTileScales& s,
                         const float* row, const float* column, float* acc) {
  Sums sums;
  for (int i = 0; i < 2 * kRows; ++i)
    sums.v[i / 2][i % 2] = _mm512_setzero_ps();
  add_products(rows, columns, k, sums);
  for (int i = 0; i < 2 * kRows; ++i) {
    const __m512 f = _mm512_set1_ps(row[i / 2]);
    const __m512 c = _mm512_loadu_ps(column + i % 2 * 16);
    const __m512 t =
        _mm512_mul_ps(sums.v[i / 2][i % 2], s.column_first ? c : f);
    const __m512 before =
        add ? _mm512_load_ps(acc + i * 16) : _mm512_setzero_ps();
    _mm512_store_ps(acc + i * 16,
                    _mm512_fmadd_ps(t, s.column_first ? f : c, before));
  }
}

void scaled_tile(const std::byte* rows, const std::byte* columns,
                 std::int64_t k, bool add, const std::byte*,
                 const GemmTileScales& scales, float* acc) {
  const float* row = scales.row;
  const float* column = scales.column;
  for (; k > 0; k -= kGemmScaleBlock) {
    const std::int64_t n = std::min(k, kGemmScaleBlock);
    for (int first = 0; first < kBf16Panel; first += kRows)
      scaled_block(rows + first * 64, columns, n, add, scales, row + first,
                   column, acc + first * kBf16Panel);
    rows += n / kBf16Step * kBf16StepBytes;
    columns += n / kBf16Step * kBf16StepBytes;
    add = true;
    row += scales.row_stride;
    column += scales.column_stride;
  }
}

}  // namespace
#pragma GCC pop_options

const GemmUnit* avx512_bf16_gemm_unit() {
  static const GemmUnit kUnit = {.name = "avx512_bf16",
                                 .rows = kBf16Panel,
                                 .columns = kBf16Panel,
                                 .k_step = kBf16Step,
                                 .chunk = kBf16Chunk,
                                 .element = sizeof(std::uint16_t),
                                 .prefetch = 0,
                                 .pack_rows = &pack_bf16_rows,
                                 .pack_columns = &pack_bf16_columns,
                                 .tile = &tile,
                                 .scaled_tile = &scaled_tile,
                                 .enter = &no_state,
                                 .leave = &no_state};
  return has_avx512_bf16() ? &kUnit : nullptr;
}

}  // namespace assay

#else

namespace assay {

const GemmUnit* avx512_bf16_gemm_unit() { return nullptr; }

}  // namespace assay

#endif
