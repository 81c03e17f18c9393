// What becomes of a strip of sums: scaled, biased, activated, rounded.
// A part of simd/gemm.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A row of a strip, padded so that whole vectors may be worked on.
constexpr int kRowBuffer = kGemmBlockSide + 64;
using GemmRow = float[kRowBuffer];

template <class Body>
HWY_INLINE void for_vectors(int n, Body&& body) {
  const GemmD d;
  for (int j = 0; j < n; j += static_cast<int>(hn::Lanes(d))) body(d, j);
}

inline void widen_row(DType dtype, const std::byte* row, std::int64_t at, int n,
                      float* out) {
  const int bytes = traits(dtype).bits / 8;
  widen_run(dtype, row + at * bytes, n, out);
}

// To nearest even; NaN keeps its sign and becomes quiet.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<GemmD>> bf16_bits(hn::Vec<GemmD> v) {
  const GemmD d;
  const hn::RebindToUnsigned<GemmD> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded =
      hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff))));
  const auto quiet = hn::Or(hn::ShiftRight<16>(bits), hn::Set(du, 0x40));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), quiet, rounded);
}

// Saturating, to nearest even; NaN is 0x7f. kMantissa 3: e4m3fn, 2: e5m2.
template <int kMantissa>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<GemmD>> fp8_bits(hn::Vec<GemmD> v) {
  const GemmD d;
  const hn::RebindToUnsigned<GemmD> du;
  constexpr float kMax = kMantissa == 3 ? 448.0f : 57344.0f;
  constexpr int kMinExponent = kMantissa == 3 ? -6 : -14;
  constexpr std::uint32_t kRebias = (127u + kMinExponent - 1) << (23);
  constexpr int kDrop = 23 - kMantissa;
  const auto sign =
      hn::ShiftRight<24>(hn::And(hn::BitCast(du, v), hn::Set(du, 0x80000000u)));
  const auto magnitude = hn::Min(hn::Abs(v), hn::Set(d, kMax));
  // Below the smallest normal the last place is fixed: adding 2^23 of them
  // rounds to it.
  const auto magic =
      hn::Set(d, static_cast<float>(pow2(kMinExponent - kMantissa + 23)));
  const auto small = hn::Sub(hn::BitCast(du, hn::Add(magnitude, magic)),
                             hn::BitCast(du, magic));
  const auto bits = hn::BitCast(du, magnitude);
  const auto odd = hn::And(hn::ShiftRight<kDrop>(bits), hn::Set(du, 1));
  const auto half = hn::Set(du, (1u << (kDrop - 1)) - 1);
  const auto large = hn::ShiftRight<kDrop>(
      hn::Sub(hn::Add(bits, hn::Add(odd, half)), hn::Set(du, kRebias)));
  const auto is_small = hn::RebindMask(
      du,
      hn::Lt(magnitude, hn::Set(d, static_cast<float>(pow2(kMinExponent)))));
  const auto code = hn::Or(hn::IfThenElse(is_small, small, large), sign);
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(v)), hn::Set(du, 0x7f),
                        code);
}

// `stream`: whole cache lines go past the caches, so that what was there need
// not be read first.
template <typename T>
HWY_INLINE void copy_out(const T* from, int n, bool stream, std::byte* out) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
  const hn::Repartition<std::uint8_t, GemmD> d;
  const auto* source = reinterpret_cast<const std::uint8_t*>(from);
  auto* target = reinterpret_cast<std::uint8_t*>(out);
  if (!stream || bytes % 64 != 0 ||
      reinterpret_cast<std::uintptr_t>(out) % 64 != 0) {
    std::memcpy(out, from, bytes);
    return;
  }
  for (std::size_t i = 0; i < bytes; i += hn::Lanes(d))
    hn::Stream(hn::Load(d, source + i), d, target + i);
}

template <typename T, class Bits>
HWY_INLINE void narrow_bits(const float* v, int n, bool stream, std::byte* out,
                            Bits&& bits) {
  const hn::Rebind<T, GemmD> dt;
  alignas(64) T codes[kRowBuffer];
  for_vectors(n, [&](auto d, int j) HWY_ATTR {
    const hn::RebindToSigned<GemmD> di;
    const auto code = hn::BitCast(di, bits(hn::Load(d, v + j)));
    hn::StoreU(hn::DemoteTo(dt, code), dt, codes + j);
  });
  copy_out(codes, n, stream, out);
}

inline void narrow_f16(const float* v, int n, bool stream, std::byte* out) {
  const hn::Rebind<hwy::float16_t, GemmD> dh;
  alignas(64) hwy::float16_t codes[kRowBuffer];
  for_vectors(n, [&](auto d, int j) HWY_ATTR {
    hn::StoreU(hn::DemoteTo(dh, hn::Load(d, v + j)), dh, codes + j);
  });
  copy_out(codes, n, stream, out);
}

// Elements [at, at + n) of `out`.
inline void narrow_row(DType dtype, const float* v, int n, bool stream,
                       std::byte* out, std::int64_t at) {
  out += at * (traits(dtype).bits / 8);
  switch (dtype) {
    case DType::kBF16:
      return narrow_bits<std::uint16_t>(
          v, n, stream, out, [](auto x) HWY_ATTR { return bf16_bits(x); });
    case DType::kE4M3FN:
      return narrow_bits<std::uint8_t>(
          v, n, stream, out, [](auto x) HWY_ATTR { return fp8_bits<3>(x); });
    case DType::kE5M2:
      return narrow_bits<std::uint8_t>(
          v, n, stream, out, [](auto x) HWY_ATTR { return fp8_bits<2>(x); });
    case DType::kF16:
      return narrow_f16(v, n, stream, out);
    default:
      copy_out(v, n, stream, out);
  }
}

// For fp32 results in fp64, so that gelu is rounded once: sigmoid(2u) =
// 1 / (1 + exp(-2u)). For narrower ones fp32 is enough (simd/gelu-inl.h): its
// error is far below half a unit of theirs.
using GemmHalf = hn::Half<GemmD>;
using GemmWide = hn::Repartition<double, GemmD>;
using WideVec = hn::Vec<GemmWide>;

HWY_INLINE WideVec gelu_gate(WideVec x) {
  const GemmWide d;
  const auto slope = hn::MulAdd(hn::Set(d, -2 * kGeluCubic), hn::Mul(x, x),
                                hn::Set(d, -2 * kGeluLinear));
  // Beyond, exp leaves its range; the gate is far below the last place, and 0
  // so that -infinity gives NaN as it does in the plain loops.
  const auto t = hn::Mul(x, slope), most = hn::Set(d, 700.0);
  const auto e =
      hn::IfThenElse(hn::Gt(t, most), hn::Inf(d), hn::Exp(d, hn::Min(t, most)));
  const auto one = hn::Set(d, 1.0);
  return hn::Div(one, hn::Add(one, e));
}

HWY_INLINE WideVec gelu_value(WideVec x) { return hn::Mul(x, gelu_gate(x)); }

// With s the gate: s + x s (1 - s) 2u'.
HWY_INLINE WideVec gelu_slope(WideVec x) {
  const GemmWide d;
  const auto s = gelu_gate(x);
  const auto du = hn::MulAdd(hn::Set(d, 2 * kGeluSlopeSquare), hn::Mul(x, x),
                             hn::Set(d, 2 * kGeluLinear));
  const auto one = hn::Set(d, 1.0);
  return hn::MulAdd(hn::Mul(hn::Mul(x, s), hn::Sub(one, s)), du, s);
}

// v[j] = f(v[j]) of n elements, in fp64.
template <class F>
HWY_INLINE void map_wide(const float* in, int n, F&& f, float* out) {
  const GemmHalf half;
  const GemmWide wide;
  for (int j = 0; j < n; j += static_cast<int>(hn::Lanes(half))) {
    const auto x = hn::PromoteTo(wide, hn::Load(half, in + j));
    hn::Store(hn::DemoteTo(half, f(x)), half, out + j);
  }
}

// `wide`: in fp64.
inline void gelu_row(float* v, int n, bool wide) {
  if (wide)
    return map_wide(
        v, n, [](WideVec x) HWY_ATTR { return gelu_value(x); }, v);
  for_vectors(n, [&](auto d, int j) HWY_ATTR {
    hn::Store(Gelu::value(hn::Load(d, v + j)), d, v + j);
  });
}

inline void dgelu_row(float* v, float* pre, int n, bool wide) {
  if (wide) {
    map_wide(
        pre, n, [](WideVec x) HWY_ATTR { return gelu_slope(x); }, pre);
  } else {
    for_vectors(n, [&](auto d, int j) HWY_ATTR {
      hn::Store(Gelu::both(hn::Load(d, pre + j)).slope, d, pre + j);
    });
  }
  for_vectors(n, [&](auto d, int j) HWY_ATTR {
    hn::Store(hn::Mul(hn::Load(d, v + j), hn::Load(d, pre + j)), d, v + j);
  });
}

struct GemmAlpha {
  float first, second;  // second is 1 but where one fp32 cannot hold alpha
};

inline GemmAlpha split_alpha(double alpha) {
  const double size = std::fabs(alpha);
  const bool fits = size >= 0x1p-126 && size < 0x1p127;
  if (fits || !(size > 0) || !std::isfinite(size))
    return {static_cast<float>(alpha), 1.0f};
  const int half = std::ilogb(size) / 2;
  return {static_cast<float>(alpha * pow2(-half)),
          static_cast<float>(pow2(half))};
}

inline void gather_row(const GemmStrip& s, int r, float* v) {
  const float* acc = s.acc + r * s.tile_columns;
  for (int j = 0; j < s.columns; j += s.tile_columns, acc += s.next) {
    for_vectors(s.tile_columns, [&](auto d, int i) HWY_ATTR {
      hn::Store(hn::Load(d, acc + i), d, v + j + i);
    });
  }
}

inline void scale_row(int n, GemmAlpha alpha, float row_alpha, float* v) {
  for_vectors(n, [&](auto d, int j) HWY_ATTR {
    auto x = hn::Mul(hn::Load(d, v + j), hn::Set(d, alpha.first));
    x = hn::Mul(x, hn::Set(d, alpha.second));
    hn::Store(hn::Mul(x, hn::Set(d, row_alpha)), d, v + j);
  });
}

inline void add_scaled_row(const float* x, int n, float scale, float* v) {
  for_vectors(n, [&](auto d, int j) HWY_ATTR {
    hn::Store(
        hn::MulAdd(hn::Load(d, x + j), hn::Set(d, scale), hn::Load(d, v + j)),
        d, v + j);
  });
}

inline void activate_row(const GemmEpilogue& e, std::int64_t at, int n,
                         float* v) {
  const bool wide = e.d_dtype == DType::kF32;
  if (e.activation == GemmActivation::kGelu) {
    if (e.aux) narrow_row(e.aux_dtype, v, n, false, e.aux, at);
    gelu_row(v, n, wide);
  } else if (e.activation == GemmActivation::kDGelu) {
    alignas(64) GemmRow pre;
    widen_row(e.aux_dtype, e.aux, at, n, pre);
    dgelu_row(v, pre, n, wide);
  }
}

inline void store_row(const GemmEpilogue& e, std::int64_t at, int n,
                      bool stream, float* v, float& amax) {
  if (e.amax)
    for (int j = 0; j < n; ++j) amax = std::fmax(amax, std::fabs(v[j]));
  if (traits(e.d_dtype).bits == 8 && e.d_scale != 1) {
    for_vectors(n, [&](auto d, int j) HWY_ATTR {
      hn::Store(hn::Mul(hn::Load(d, v + j), hn::Set(d, e.d_scale)), d, v + j);
    });
  }
  narrow_row(e.d_dtype, v, n, stream, e.d, at);
}

void gemm_epilogue(const GemmEpilogue& e, std::int64_t n,
                   const GemmStrip& strip, float& amax, double* column_sums) {
  const GemmAlpha alpha = split_alpha(e.alpha);
  const int columns = strip.columns;
  alignas(64) GemmRow v, other;
  for (int r = 0; r < strip.rows; ++r) {
    const std::int64_t at = (strip.row + r) * n + strip.column;
    gather_row(strip, r, v);
    if (e.alpha != 1 || e.row_alpha)
      scale_row(columns, alpha, e.row_alpha ? e.row_alpha[strip.row + r] : 1.0f,
                v);
    if (e.c && e.beta != 0) {
      widen_row(e.c_dtype, e.c, at, columns, other);
      add_scaled_row(other, columns, e.beta, v);
    }
    if (e.bias) {
      std::memcpy(other, e.bias + strip.column,
                  static_cast<std::size_t>(columns) * sizeof(float));
      add_scaled_row(other, columns, 1.0f, v);
    }
    activate_row(e, at, columns, v);
    if (column_sums)
      for (int j = 0; j < columns; ++j)
        column_sums[strip.column + j] += double{v[j]};
    store_row(e, at, columns, strip.stream, v, amax);
  }
  if (strip.stream) hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
