// Panels for the bf16 units: decode, fold the scale in, lay out.
#include "assay/kernels/x86/gemm_bf16.h"
#include "assay/kernels/x86/units.h"

#if ASSAY_X86_UNITS
// GCC 12 warns of its own headers (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <bit>

#include "assay/numerics/float_format.h"

// After the headers: what they define must run on every machine.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#include "assay/kernels/x86/gemm_bf16_decode.h"

namespace assay {
namespace {

__mmask32 first_lanes(std::int64_t n) {
  return n >= 32 ? 0xffffffffu : (1u << n) - 1;
}

// Two factors whose product is 2^shift, each a normal fp32: one multiplication
// by the first and one by the second are exact wherever the result is normal.
struct Factor {
  explicit Factor(int shift)
      : first(_mm512_set1_ps(static_cast<float>(pow2(shift / 2)))),
        second(_mm512_set1_ps(static_cast<float>(pow2(shift - shift / 2)))) {}
  __m512i half(__m256i bf16) const {
    const __m512 x =
        _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
    const __m512 y = _mm512_mul_ps(_mm512_mul_ps(x, first), second);
    return _mm512_srli_epi32(_mm512_castps_si512(y), 16);
  }
  __m512i operator()(__m512i bf16) const {
    const __m512i low = half(_mm512_castsi512_si256(bf16));
    const __m512i high = half(_mm512_extracti64x4_epi64(bf16, 1));
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)),
        _mm512_cvtepi32_epi16(high), 1);
  }
  __m512 first, second;
};

// Loaders: 32 consecutive elements, from element `index` of the view on, of
// which the first `n` exist, the others 0. They keep what GemmRange says.

class LoadBf16 {
 public:
  LoadBf16(const GemmView& view, int shift)
      : data_(reinterpret_cast<const std::uint16_t*>(view.data)),
        shift_(shift),
        factor_(shift) {}
  __m512i operator()(std::int64_t index, std::int64_t n, __m512i) {
    __m512i v = n >= 32
                    ? _mm512_loadu_si512(data_ + index)
                    : _mm512_maskz_loadu_epi16(first_lanes(n), data_ + index);
    if (shift_ != 0) v = factor_(v);
    const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi16(0x7fff));
    // Zero becomes the greatest.
    min_ = _mm512_min_epu16(min_,
                            _mm512_sub_epi16(magnitude, _mm512_set1_epi16(1)));
    const __mmask32 finite =
        _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(0x7f80));
    max_ = _mm512_mask_max_epu16(max_, finite, max_, magnitude);
    return v;
  }
  void finish(GemmRange& range) const {
    alignas(64) std::uint16_t low[32], high[32];
    _mm512_store_si512(low, min_);
    _mm512_store_si512(high, max_);
    for (int i = 0; i < 32; ++i) {
      if (low[i] < 0x7f7f) range.merge(of(low[i] + 1));
      if (high[i] != 0) range.merge(of(high[i]));
    }
  }

 private:
  static GemmRange of(int magnitude) {
    const int exponent = magnitude >= 0x80
                             ? (magnitude >> 7) - 127
                             : static_cast<int>(std::bit_width(
                                   static_cast<unsigned>(magnitude))) -
                                   134;
    return {exponent, exponent, exponent < -126};
  }
  const std::uint16_t* data_;
  int shift_;
  Factor factor_;
  __m512i min_ = _mm512_set1_epi16(-1), max_ = _mm512_setzero_si512();
};

// The view's range is that of the format: no need to look.
template <class Decode>
class LoadFp8 {
 public:
  LoadFp8(const GemmView& view, int)
      : data_(reinterpret_cast<const std::uint8_t*>(view.data)) {}
  __m512i operator()(std::int64_t index, std::int64_t n, __m512i) {
    return decode(data_ + index, n);
  }
  void finish(GemmRange& range) const {
    range.merge({Decode::kMinExponent, Decode::kMaxExponent, false});
  }
  static __m512i decode(const std::uint8_t* at, std::int64_t n) {
    const __m256i codes =
        n >= 32 ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at))
                : _mm256_maskz_loadu_epi8(first_lanes(n), at);
    return Decode::run(_mm512_cvtepu8_epi16(codes));
  }

 private:
  const std::uint8_t* data_;
};

// With an E8M0 scale per lane, given as its code: the exponent of what is
// neither zero nor special moves by code - 127 + shift.
template <class Decode>
class LoadMx {
 public:
  LoadMx(const GemmView& view, int shift)
      : data_(reinterpret_cast<const std::uint8_t*>(view.data)),
        offset_(_mm512_set1_epi16(static_cast<short>(shift - 127))) {}
  __m512i operator()(std::int64_t index, std::int64_t n, __m512i codes) {
    const __m512i v = LoadFp8<Decode>::decode(data_ + index, n);
    const __m512i magnitude = _mm512_and_si512(v, _mm512_set1_epi16(0x7fff));
    const __m512i special = _mm512_set1_epi16(0x7f80);
    const __mmask32 live =
        _mm512_cmpneq_epi16_mask(magnitude, _mm512_setzero_si512()) &
        _mm512_cmplt_epu16_mask(magnitude, special);
    const __m512i moved = _mm512_add_epi16(codes, offset_);
    const __m512i field =
        _mm512_add_epi16(_mm512_srli_epi16(magnitude, 7), moved);
    min_ = _mm512_mask_min_epi16(min_, live, min_, field);
    max_ = _mm512_mask_max_epi16(max_, live, max_, field);
    const __m512i sum =
        _mm512_mask_add_epi16(v, live, v, _mm512_slli_epi16(moved, 7));
    // 0xff is NaN, whatever the element.
    const __mmask32 nan =
        _mm512_cmpeq_epi16_mask(codes, _mm512_set1_epi16(0xff)) &
        first_lanes(n);
    return _mm512_mask_mov_epi16(sum, nan, _mm512_set1_epi16(0x7fc0));
  }
  void finish(GemmRange& range) const {
    alignas(64) std::int16_t low[32], high[32];
    _mm512_store_si512(low, min_);
    _mm512_store_si512(high, max_);
    for (int i = 0; i < 32; ++i) {
      if (low[i] == kNone) continue;
      range.merge({low[i] - 127, high[i] - 127, low[i] < 1 || high[i] > 254});
    }
  }

 private:
  static constexpr std::int16_t kNone = 0x7fff;
  const std::uint8_t* data_;
  __m512i offset_;
  __m512i min_ = _mm512_set1_epi16(kNone), max_ = _mm512_set1_epi16(-kNone);
};

// e2m1 times the E4M3 scale of 16 elements: at most 6 significant bits.
class LoadNv {
 public:
  LoadNv(const GemmView& view, int)
      : data_(reinterpret_cast<const std::uint8_t*>(view.data)) {}
  // `scales` holds the two scales as codes in its two lowest bytes.
  __m512i operator()(std::int64_t index, std::int64_t n, __m512i scales) {
    const __m128i bytes = _mm_maskz_loadu_epi8(
        static_cast<__mmask16>(
            first_lanes((std::min<std::int64_t>(n, 32) + 1) / 2)),
        data_ + index / 2);
    const __m512i wide = _mm512_cvtepu8_epi32(bytes);
    const __m512i nibbles = _mm512_or_si512(
        _mm512_and_si512(wide, _mm512_set1_epi32(0xf)),
        _mm512_slli_epi32(_mm512_and_si512(wide, _mm512_set1_epi32(0xf0)), 12));
    const int both = _mm_cvtsi128_si32(_mm512_castsi512_si128(scales));
    const __m512i low = half(_mm512_castsi512_si256(nibbles), both & 0xff);
    const __m512i high =
        half(_mm512_extracti64x4_epi64(nibbles, 1), both >> 8 & 0xff);
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)),
        _mm512_cvtepi32_epi16(high), 1);
  }
  void finish(GemmRange& range) const { range.merge({-10, 11, false}); }

 private:
  static __m512i half(__m256i nibbles, int scale) {
    const __m512 values =
        _mm512_permutexvar_ps(_mm512_cvtepu16_epi32(nibbles),
                              _mm512_setr_ps(0, .5f, 1, 1.5f, 2, 3, 4, 6, -0.0f,
                                             -.5f, -1, -1.5f, -2, -3, -4, -6));
    static const auto table = [] {
      std::array<float, 256> t{};
      for (std::size_t i = 0; i < t.size(); ++i)
        t[i] = static_cast<float>(decode_float(DType::kE4M3FN, i));
      return t;
    }();
    const __m512 scaled = _mm512_mul_ps(
        values, _mm512_set1_ps(table[static_cast<std::size_t>(scale)]));
    return _mm512_srli_epi32(_mm512_castps_si512(scaled), 16);
  }
  const std::uint8_t* data_;
};

// The scales of 32 elements as a loader takes them. Where k is contiguous the
// elements are k, k + 1 ... of one outer (k a multiple of 32), else outers.
[[gnu::always_inline]] inline __m512i scales_of(const GemmView& view,
                                                std::int64_t outer,
                                                std::int64_t k,
                                                std::int64_t n) {
  if (view.fold == GemmFold::kNone) return _mm512_setzero_si512();
  const std::uint8_t* at = view.scales + outer * view.scale_outer +
                           k / gemm_fold_block(view.fold) * view.scale_k;
  if (view.fold == GemmFold::kE4M3) {
    const int second = n > 16 ? at[view.scale_k] : 0;
    return _mm512_castsi128_si512(_mm_cvtsi32_si128(at[0] | second << 8));
  }
  if (view.k_contiguous) return _mm512_set1_epi16(at[0]);
  if (view.scale_outer == 1)
    return _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(first_lanes(n), at));
  alignas(64) std::uint16_t codes[32] = {};
  for (std::int64_t i = 0; i < n && i < 32; ++i)
    codes[i] = at[i * view.scale_outer];
  return _mm512_load_si512(codes);
}

// 16 rows of 16 words, transposed in place.
void transpose(__m512i (&r)[16]) {
  __m512i t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  }
  for (int i = 0; i < 4; ++i) {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

enum class Side { kRows, kColumns };

// k contiguous: a row of a panel is 32 elements of memory.
template <Side side, class Load>
void pack_contiguous(const GemmView& view, std::int64_t first, Load& load,
                     std::byte* panel) {
  const std::int64_t count =
      std::min<std::int64_t>(kBf16Panel, view.outer - first);
  for (std::int64_t k = 0; k < view.k; k += kBf16Step) {
    const std::int64_t n = view.k - k;
    for (int tile = 0; tile < kBf16Panel; tile += 16) {
      __m512i rows[16];
      for (int r = 0; r < 16; ++r) {
        const std::int64_t o = first + tile + r;
        rows[r] = tile + r < count
                      ? load(o * view.stride + k, n, scales_of(view, o, k, n))
                      : _mm512_setzero_si512();
      }
      if constexpr (side == Side::kColumns) transpose(rows);
      for (int r = 0; r < 16; ++r)
        _mm512_store_si512(panel + (tile + r) * 64, rows[r]);
    }
    panel += kBf16StepBytes;
  }
}

// Elements of whole bytes.
void fetch(const GemmView& view, std::int64_t index) {
  const std::int64_t bytes = traits(view.dtype).bits / 8;
  _mm_prefetch(reinterpret_cast<const char*>(view.data) + index * bytes,
               _MM_HINT_T0);
}

// Outers contiguous: two rows of memory, k and k + 1, are zipped to pairs.
template <Side side, class Load>
void pack_strided(const GemmView& view, std::int64_t first, Load& load,
                  std::byte* panel) {
  alignas(64) static constexpr auto kZip = [] {
    std::array<std::uint16_t, 64> t{};
    for (std::size_t i = 0; i < 32; ++i) {
      t[2 * i] = static_cast<std::uint16_t>(i);
      t[2 * i + 1] = static_cast<std::uint16_t>(32 + i);
    }
    return t;
  }();
  const __m512i zip[2] = {_mm512_load_si512(kZip.data()),
                          _mm512_load_si512(kZip.data() + 32)};
  const std::int64_t count = view.outer - first;
  constexpr std::int64_t kAhead = 32;
  const auto row = [&](std::int64_t k) {
    // Rows lie far apart, where the hardware does not look ahead.
    if (k + kAhead < view.k) fetch(view, (k + kAhead) * view.stride + first);
    return k < view.k ? load(k * view.stride + first, count,
                             scales_of(view, first, k, count))
                      : _mm512_setzero_si512();
  };
  for (std::int64_t k = 0; k < view.k; k += kBf16Step) {
    __m512i pairs[2][16];
    for (int p = 0; p < 16; ++p) {
      const __m512i even = row(k + 2 * p), odd = row(k + 2 * p + 1);
      for (int half = 0; half < 2; ++half)
        pairs[half][p] = _mm512_permutex2var_epi16(even, zip[half], odd);
    }
    for (int half = 0; half < 2; ++half) {
      if constexpr (side == Side::kRows) transpose(pairs[half]);
      for (int r = 0; r < 16; ++r)
        _mm512_store_si512(panel + (half * 16 + r) * 64, pairs[half][r]);
    }
    panel += kBf16StepBytes;
  }
}

template <Side side, class Load>
void pack_with(const GemmView& view, std::int64_t first, int shift,
               std::byte* panel, GemmRange& range) {
  Load load(view, shift);
  if (view.k_contiguous)
    pack_contiguous<side>(view, first, load, panel);
  else
    pack_strided<side>(view, first, load, panel);
  load.finish(range);
}

template <Side side>
void pack(const GemmView& view, std::int64_t first, int shift, std::byte* panel,
          GemmRange& range) {
  if (view.dtype == DType::kBF16)
    return pack_with<side, LoadBf16>(view, first, shift, panel, range);
  if (view.dtype == DType::kE2M1)
    return pack_with<side, LoadNv>(view, first, shift, panel, range);
  const bool e4m3 = view.dtype == DType::kE4M3FN;
  if (view.fold == GemmFold::kNone) {
    return e4m3 ? pack_with<side, LoadFp8<DecodeE4M3>>(view, first, shift,
                                                       panel, range)
                : pack_with<side, LoadFp8<DecodeE5M2>>(view, first, shift,
                                                       panel, range);
  }
  return e4m3 ? pack_with<side, LoadMx<DecodeE4M3>>(view, first, shift, panel,
                                                    range)
              : pack_with<side, LoadMx<DecodeE5M2>>(view, first, shift, panel,
                                                    range);
}

}  // namespace

void pack_bf16_rows(const GemmView& view, std::int64_t first, int shift,
                    std::byte* panel, GemmRange& range) {
  pack<Side::kRows>(view, first, shift, panel, range);
}

void pack_bf16_columns(const GemmView& view, std::int64_t first, int shift,
                       std::byte* panel, GemmRange& range) {
  pack<Side::kColumns>(view, first, shift, panel, range);
}

}  // namespace assay
#pragma GCC pop_options
#endif
