// Rows of float32, bf16 or f16 as vectors of fp32 and back, and their amax.
// A part of cast.cpp, which includes it once per instruction set: no guard, no
// includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using D16 = hn::Rebind<std::uint16_t, DF>;
using D8 = hn::Rebind<std::uint8_t, DF>;
using VF = hn::Vec<DF>;
using VU = hn::Vec<DU>;

HWY_INLINE std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(DF()));
}

// The low byte, the low half of every lane. AVX-512 has one instruction for
// what Highway does in two shuffles.
HWY_INLINE void store_bytes(VU v, std::uint8_t* out) {
#if HWY_TARGET == HWY_AVX3
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm512_cvtepi32_epi8(v.raw));
#else
  hn::StoreU(hn::TruncateTo(D8(), v), D8(), out);
#endif
}
HWY_INLINE void store_halves(VU v, std::uint16_t* out) {
#if HWY_TARGET == HWY_AVX3
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out),
                      _mm512_cvtepi32_epi16(v.raw));
#else
  hn::StoreU(hn::TruncateTo(D16(), v), D16(), out);
#endif
}

// Asks for the lines that a loop will reach soon, `count` elements of them.
// The hardware does so by itself within a page, and starts anew in each: with
// this long rows run at the speed of memory. An address past the end is
// harmless.
inline constexpr std::int64_t kAheadBytes = 2048;
template <typename T>
HWY_INLINE void ask_ahead(const T* p, std::int64_t count) {
  constexpr std::int64_t kLine = 64;
  const char* bytes = reinterpret_cast<const char*>(p) + kAheadBytes;
  const std::int64_t size = count * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t at = 0; at < size; at += kLine)
    __builtin_prefetch(bytes + at);
}

// How a row is read and written. store() takes no NaN but the quiet one with
// an empty payload. kInfinity: the largest
// magnitude that is no NaN.
struct RowF32 {
  using T = float;
  using Bits = std::uint32_t;
  static constexpr Bits kInfinity = 0x7f800000u;
  static HWY_INLINE VF widen(VU bits) { return hn::BitCast(DF(), bits); }
  static HWY_INLINE VF load(const T* p) { return hn::LoadU(DF(), p); }
  static HWY_INLINE void store(VF v, T* p) { hn::StoreU(v, DF(), p); }
  static float value(Bits magnitude) { return std::bit_cast<float>(magnitude); }
};

struct RowBf16 {
  using T = std::uint16_t;
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7f80u;
  static HWY_INLINE VF widen(hn::Vec<D16> bits) {
    return hn::BitCast(DF(), hn::ShiftLeft<16>(hn::PromoteTo(DU(), bits)));
  }
  static HWY_INLINE VF load(const T* p) { return widen(hn::LoadU(D16(), p)); }
  static HWY_INLINE void store(VF v, T* p) {
    const DU du;
    const VU bits = hn::BitCast(du, v);
    const VU odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
    const VU up = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
    store_halves(hn::ShiftRight<16>(up), p);
  }
  static float value(Bits magnitude) { return bf16_value(magnitude); }
};

struct RowF16 {
  using T = std::uint16_t;
  using Bits = std::uint16_t;
  static constexpr Bits kInfinity = 0x7c00u;
  using D = hn::Rebind<hwy::float16_t, DF>;
  static HWY_INLINE VF widen(hn::Vec<D16> bits) {
    return hn::PromoteTo(DF(), hn::BitCast(D(), bits));
  }
  static HWY_INLINE VF load(const T* p) { return widen(hn::LoadU(D16(), p)); }
  static HWY_INLINE void store(VF v, T* p) {
    hn::StoreU(hn::DemoteTo(D(), v), D(), reinterpret_cast<hwy::float16_t*>(p));
  }
  static float value(Bits magnitude) { return f16_value(magnitude); }
};

// NaN as store() takes it.
HWY_INLINE VF quiet(VF v) {
  const VF nan = hn::BitCast(DF(), hn::Set(DU(), 0x7fc00000));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

template <typename Row>
void round_row(const float* x, std::int64_t n, typename Row::T* out) {
  std::int64_t i = 0;
  for (; i + lanes() <= n; i += lanes())
    Row::store(quiet(RowF32::load(x + i)), out + i);
  if (i == n) return;
  float rest[16] = {};
  typename Row::T rounded[16];
  std::copy(x + i, x + n, rest);
  Row::store(quiet(RowF32::load(rest)), rounded);
  std::copy(rounded, rounded + (n - i), out + i);
}

// Largest magnitudes, in the integers of the codes: their order is that of the
// numbers, and a NaN is what lies above infinity.
template <typename Row>
struct Amax {
  using T = typename Row::T;
  using Bits = typename Row::Bits;
  using D = hn::CappedTag<Bits, 64 / sizeof(Bits)>;
  using V = hn::Vec<D>;

  static HWY_INLINE V magnitude(const T* p) {
    const D d;
    const V most =
        hn::Set(d, static_cast<Bits>(std::numeric_limits<Bits>::max() / 2));
    return hn::And(hn::LoadU(d, reinterpret_cast<const Bits*>(p)), most);
  }
  static HWY_INLINE V number(V magnitude) {  // 0 where it is a NaN
    const D d;
    const hn::RebindToSigned<D> di;
    const auto nan = hn::Gt(hn::BitCast(di, magnitude),
                            hn::BitCast(di, hn::Set(d, Row::kInfinity)));
    return hn::IfThenZeroElse(hn::RebindMask(d, nan), magnitude);
  }

  // Any NaN is larger than every number, so a maximum that is none is right;
  // only where it is one the row is gone through with NaNs left out.
  static float run(const T* x, std::int64_t n) {
    const Bits most = largest<false>(x, n);
    return Row::value(most > Row::kInfinity ? largest<true>(x, n) : most);
  }

  template <bool kSkip>
  static HWY_INLINE V step(V so_far, const T* p) {
    const V m = magnitude(p);
    return hn::Max(so_far, kSkip ? number(m) : m);
  }

  template <bool kSkip>
  static HWY_INLINE Bits largest(const T* x, std::int64_t n) {
    const D d;
    const auto lane_count = static_cast<std::int64_t>(hn::Lanes(d));
    const std::int64_t turn = 4 * lane_count;
    V a = hn::Zero(d), b = a, c = a, e = a;
    std::int64_t i = 0;
    for (; i + turn <= n; i += turn) {
      ask_ahead(x + i, turn);
      a = step<kSkip>(a, x + i);
      b = step<kSkip>(b, x + i + lane_count);
      c = step<kSkip>(c, x + i + 2 * lane_count);
      e = step<kSkip>(e, x + i + 3 * lane_count);
    }
    for (; i + lane_count <= n; i += lane_count) a = step<kSkip>(a, x + i);
    if (i < n) {
      T rest[64 / sizeof(Bits)] = {};
      std::copy(x + i, x + n, rest);
      b = step<kSkip>(b, rest);
    }
    return reduce(hn::Max(hn::Max(a, b), hn::Max(c, e)));
  }

  static HWY_INLINE Bits reduce(V v) { return hn::GetLane(most_of(D(), v)); }
  // Halves of a vector fold until one of 128 bits is left, for which there
  // are short sequences.
  template <class DV>
  static HWY_INLINE hn::Vec<hn::CappedTag<Bits, 16 / sizeof(Bits)>> most_of(
      DV d, hn::Vec<DV> v) {
    if constexpr (hn::MaxLanes(DV()) * sizeof(Bits) > 16) {
      const hn::Half<DV> half;
      return most_of(half,
                     hn::Max(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
    } else {
      return hn::MaxOfLanes(d, v);
    }
  }

  static void blocks(const T* x, std::int64_t n, std::int64_t block,
                     float* out) {
    for (std::int64_t i = 0; i < n; i += block)
      *out++ = run(x + i, std::min(block, n - i));
  }

  // ---- Columns: a lane each, down the rows.

  template <bool kSkip, int kVectors>
  static HWY_INLINE void go_down(const T* x, std::int64_t stride,
                                 std::int64_t rows, V (&most)[kVectors]) {
    const auto lane_count = static_cast<std::int64_t>(hn::Lanes(D()));
    for (int v = 0; v < kVectors; ++v) most[v] = hn::Zero(D());
    for (std::int64_t r = 0; r < rows; ++r)
      for (int v = 0; v < kVectors; ++v)
        most[v] = step<kSkip>(most[v], x + r * stride + v * lane_count);
  }

  template <int kVectors>
  static HWY_INLINE void some_columns(const T* x, std::int64_t stride,
                                      std::int64_t rows, float* out) {
    const auto lane_count = static_cast<std::int64_t>(hn::Lanes(D()));
    V most[kVectors];
    go_down<false>(x, stride, rows, most);
    V all = most[0];
    for (int v = 1; v < kVectors; ++v) all = hn::Max(all, most[v]);
    if (HWY_UNLIKELY(reduce(all) > Row::kInfinity))
      go_down<true>(x, stride, rows, most);
    const hn::Rebind<Bits, DF> narrow;
    for (int v = 0; v < kVectors; ++v) {
      alignas(64) Bits bits[64 / sizeof(Bits)];
      hn::Store(most[v], D(), bits);
      for (std::int64_t i = 0; i < lane_count; i += lanes())
        hn::StoreU(Row::widen(hn::Load(narrow, bits + i)), DF(),
                   out + v * lane_count + i);
    }
  }

  static void columns(const T* x, std::int64_t stride, std::int64_t rows,
                      std::int64_t columns, float* out) {
    const auto lane_count = static_cast<std::int64_t>(hn::Lanes(D()));
    std::int64_t c = 0;
    for (; c + 4 * lane_count <= columns; c += 4 * lane_count)
      some_columns<4>(x + c, stride, rows, out + c);
    for (; c + lane_count <= columns; c += lane_count)
      some_columns<1>(x + c, stride, rows, out + c);
    for (; c < columns; ++c) {
      float most = 0;
      for (std::int64_t r = 0; r < rows; ++r)
        most = std::max(most, run(x + r * stride + c, 1));
      out[c] = most;
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
