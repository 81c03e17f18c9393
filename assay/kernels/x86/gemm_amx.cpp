// The AMX unit: 32 x 32 sums in four tiles.
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
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,amx-tile,amx-bf16")

namespace assay {
namespace {

constexpr int kTileBytes = 1024;
constexpr int kPrefetch = 256;
constexpr int kAccStride = kBf16Panel * static_cast<int>(sizeof(float));

// Palette 1: eight tiles of 16 rows of 64 bytes (Intel SDM, LDTILECFG).
struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// In static memory: the compiler believes that loading it reads 8 bytes.
constinit const TileConfig kConfig;

void enter() { _tile_loadconfig(&kConfig); }
void leave() { _tile_release(); }

// Tiles 0 to 3: the sums, 4 and 5: rows, 6 and 7: columns.
inline void zero_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

inline void load_sums(const float* acc) {
  _tile_loadd(0, acc, kAccStride);
  _tile_loadd(1, acc + 16, kAccStride);
  _tile_loadd(2, acc + 16 * kBf16Panel, kAccStride);
  _tile_loadd(3, acc + 16 * kBf16Panel + 16, kAccStride);
}

inline void store_sums(float* acc) {
  _tile_stored(0, acc, kAccStride);
  _tile_stored(1, acc + 16, kAccStride);
  _tile_stored(2, acc + 16 * kBf16Panel, kAccStride);
  _tile_stored(3, acc + 16 * kBf16Panel + 16, kAccStride);
}

// Fetches kPrefetch bytes from `next` on in the time of each step.
inline void add_products(const std::byte*& rows, const std::byte*& columns,
                         std::int64_t k, const std::byte*& next) {
  for (; k > 0; k -= kBf16Step) {
    for (int line = 0; line < kPrefetch; line += 64)
      _mm_prefetch(reinterpret_cast<const char*>(next) + line, _MM_HINT_T1);
    next += kPrefetch;
    _tile_loadd(4, rows, 64);
    _tile_loadd(6, columns, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, columns + kTileBytes, 64);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, rows + kTileBytes, 64);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
    rows += kBf16StepBytes;
    columns += kBf16StepBytes;
  }
}

void tile(const std::byte* rows, const std::byte* columns, std::int64_t k,
          bool add, const std::byte* next, float* acc) {
  // The tile instructions do not tell the compiler what they read.
  asm volatile("" ::: "memory");
  if (add)
    load_sums(acc);
  else
    zero_sums();
  add_products(rows, columns, k, next);
  store_sums(acc);
}

// acc = or += partial * first * second, see GemmBlockScales.
template <bool kAdd>
inline void add_scaled(const float* partial, const GemmTileScales& s,
                       const float* row, const float* column, float* acc) {
  const __m512 c0 = _mm512_loadu_ps(column), c1 = _mm512_loadu_ps(column + 16);
  for (int r = 0; r < kBf16Panel; ++r) {
    const __m512 f = _mm512_set1_ps(row[r]);
    const auto one = [&](__m512 c, int at) {
      const __m512 p = _mm512_load_ps(partial + at);
      const __m512 before =
          kAdd ? _mm512_load_ps(acc + at) : _mm512_setzero_ps();
      const __m512 sum = s.column_first
                             ? _mm512_fmadd_ps(_mm512_mul_ps(p, c), f, before)
                             : _mm512_fmadd_ps(_mm512_mul_ps(p, f), c, before);
      _mm512_store_ps(acc + at, sum);
    };
    one(c0, r * kBf16Panel);
    one(c1, r * kBf16Panel + 16);
  }
}

void scaled_tile(const std::byte* rows, const std::byte* columns,
                 std::int64_t k, bool add, const std::byte* next,
                 const GemmTileScales& scales, float* acc) {
  // Two of them, so that the next block's products need not wait.
  alignas(64) float partial[2][kBf16Panel * kBf16Panel];
  const float* row = scales.row;
  const float* column = scales.column;
  asm volatile("" ::: "memory");
  for (int buffer = 0; k > 0; k -= kGemmScaleBlock, buffer ^= 1) {
    zero_sums();
    add_products(rows, columns, std::min(k, kGemmScaleBlock), next);
    store_sums(partial[buffer]);
    if (add)
      add_scaled<true>(partial[buffer], scales, row, column, acc);
    else
      add_scaled<false>(partial[buffer], scales, row, column, acc);
    add = true;
    row += scales.row_stride;
    column += scales.column_stride;
  }
}

}  // namespace
#pragma GCC pop_options

const GemmUnit* amx_gemm_unit() {
  static const GemmUnit kUnit = {.name = "amx",
                                 .rows = kBf16Panel,
                                 .columns = kBf16Panel,
                                 .k_step = kBf16Step,
                                 .chunk = kBf16Chunk,
                                 .element = sizeof(std::uint16_t),
                                 .prefetch = kPrefetch,
                                 .pack_rows = &pack_bf16_rows,
                                 .pack_columns = &pack_bf16_columns,
                                 .tile = &tile,
                                 .scaled_tile = &scaled_tile,
                                 .enter = &enter,
                                 .leave = &leave};
  return has_amx_bf16() ? &kUnit : nullptr;
}

}  // namespace assay

#else

namespace assay {

const GemmUnit* amx_gemm_unit() { return nullptr; }

}  // namespace assay

#endif
