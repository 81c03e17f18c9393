// The rotation of heads in vectors.
// A part of rope.cpp, which includes it once per instruction set: no guard, no
// includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

using RopeD = hn::CappedTag<float, 16>;
using RopeV = hn::Vec<RopeD>;

// The code of bf16 in the high half. No case for NaN: those of bf16 values and
// of the table (quiet_nan) have a low half of zeros, which cannot carry.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<RopeD>> bf16_rounded(RopeV v) {
  const hn::RebindToUnsigned<RopeD> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  return hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffu)));
}

// Sixteen-bit and fp32 elements as vectors of fp32 and back, rounded to
// nearest even.
struct RopeF32 {
  using T = float;
  static HWY_INLINE RopeV load(const T* p) { return hn::LoadU(RopeD(), p); }
  static HWY_INLINE void store(RopeV v, T* p) { hn::StoreU(v, RopeD(), p); }
  static float value(T code) { return code; }
  static T code(float v) { return v; }
};

struct RopeBf16 {
  using T = std::uint16_t;
  static HWY_INLINE RopeV load(const T* p) {
    const hn::RebindToUnsigned<RopeD> du;
    const hn::Rebind<std::uint16_t, RopeD> d16;
    return hn::BitCast(RopeD(),
                       hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
  }
  static HWY_INLINE void store(RopeV v, T* p) {
    const hn::RebindToUnsigned<RopeD> du;
    const hn::RebindToSigned<RopeD> di;
    const hn::Rebind<std::uint16_t, RopeD> d16;
    const auto code = hn::ShiftRight<16>(bf16_rounded(v));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, code)), d16, p);
  }
  static float value(T code) { return bf16_value(code); }
  static T code(float v) {
    return static_cast<T>(encode_float(DType::kBF16, static_cast<double>(v)));
  }
};

struct RopeF16 {
  using T = std::uint16_t;
  static HWY_INLINE RopeV load(const T* p) {
    const hn::Rebind<hwy::float16_t, RopeD> d16;
    return hn::PromoteTo(
        RopeD(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
  }
  static HWY_INLINE void store(RopeV v, T* p) {
    const hn::Rebind<hwy::float16_t, RopeD> d16;
    hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(p));
  }
  static float value(T code) { return f16_value(code); }
  static T code(float v) {
    return static_cast<T>(encode_float(DType::kF16, static_cast<double>(v)));
  }
};

// bf16 elements are taken two by two as words: within a step of 2 kLanes, the
// entries of the even ones first.
inline constexpr std::int64_t kRopeLanes = HWY_TARGET == HWY_AVX3   ? 16
                                           : HWY_TARGET == HWY_AVX2 ? 8
                                                                    : 4;
inline constexpr std::int64_t kRopeStep = 2 * kRopeLanes;

inline void order_as_words(float* table, std::int64_t n) {
  float step[kRopeStep];
  for (std::int64_t i = 0; i + kRopeStep <= n; i += kRopeStep) {
    for (std::int64_t j = 0; j < kRopeLanes; ++j) {
      step[j] = table[i + 2 * j];
      step[kRopeLanes + j] = table[i + 2 * j + 1];
    }
    std::copy(step, step + kRopeStep, table + i);
  }
}

inline void sincos_table(const float* angles, std::int64_t d2, bool interleaved,
                         float* cosines, float* sines) {
  const std::int64_t half = d2 / 2;
  // Nearly every table has the same angle twice.
  if (!interleaved && std::equal(angles, angles + half, angles + half)) {
    sincos_row(angles, half, sines, cosines);
    std::copy(cosines, cosines + half, cosines + half);
    std::copy(sines, sines + half, sines + half);
  } else {
    sincos_row(angles, d2, sines, cosines);
  }
  const auto quiet_nan = [](float x) { return std::isnan(x) ? NAN : x; };
  std::transform(cosines, cosines + 2 * d2, cosines, quiet_nan);
}

void rope_prepare(const float* angles, std::int64_t d2, DType dtype,
                  bool interleaved, bool backward, void* table) {
  auto* cosines = static_cast<float*>(table);
  float* sines = cosines + d2;
  sincos_table(angles, d2, interleaved, cosines, sines);
  const std::int64_t first = interleaved ? 1 : d2 / 2;
  const std::int64_t pairs = interleaved ? 2 : 1;
  for (std::int64_t i = 0; i < d2 / 2; ++i) {
    float& a = sines[i * pairs];
    float& b = sines[i * pairs + first];
    // The transpose: the partner's sine, and the other sign.
    if (backward) std::swap(a, b);
    (backward ? b : a) *= -1;
  }
  if (dtype != DType::kBF16) return;
  const std::int64_t run = interleaved ? d2 : d2 / 2;
  for (std::int64_t i = 0; i < 2 * d2; i += run)
    order_as_words(cosines + i, run);
}

template <class E>
HWY_INLINE void rotate_one(const typename E::T* x, std::int64_t j,
                           const RopeRows& r, const float* cosines,
                           typename E::T* y) {
  const std::int64_t p = rope_partner(j, r.rotated, r.interleaved).dim;
  const float own = E::value(x[j]) * cosines[j];
  y[j] = E::code(std::fma(E::value(x[p]), cosines[r.rotated + j], own));
}

// Even and odd elements of a step, and back.
struct Words {
  RopeV even, odd;
};

HWY_INLINE Words load_words(const std::uint16_t* p) {
  const RopeD d;
  const hn::RebindToUnsigned<RopeD> du;
  const auto bits = hn::LoadU(du, reinterpret_cast<const std::uint32_t*>(p));
  return {hn::BitCast(d, hn::ShiftLeft<16>(bits)),
          hn::BitCast(d, hn::And(bits, hn::Set(du, 0xffff0000u)))};
}
HWY_INLINE void store_words(const Words& w, std::uint16_t* p) {
  const hn::RebindToUnsigned<RopeD> du;
  const auto low = hn::ShiftRight<16>(bf16_rounded(w.even));
  const auto high = hn::And(bf16_rounded(w.odd), hn::Set(du, 0xffff0000u));
  hn::StoreU(hn::Or(low, high), du, reinterpret_cast<std::uint32_t*>(p));
}

// x * cosine + partner * sine for one step; both tables in word order.
HWY_INLINE Words turn(const Words& x, const Words& partner,
                      const float* cosines, const float* sines) {
  const RopeD d;
  return {hn::MulAdd(partner.even, hn::LoadU(d, sines),
                     hn::Mul(x.even, hn::LoadU(d, cosines))),
          hn::MulAdd(partner.odd, hn::LoadU(d, sines + kRopeLanes),
                     hn::Mul(x.odd, hn::LoadU(d, cosines + kRopeLanes)))};
}

// The whole steps of a head of bf16; how many elements (of each half) it did.
HWY_INLINE std::int64_t rotate_words(const std::uint16_t* x, const RopeRows& r,
                                     const float* cosines, std::uint16_t* y) {
  const float* sines = cosines + r.rotated;
  std::int64_t j = 0;
  if (r.interleaved) {
    for (; j + kRopeStep <= r.rotated; j += kRopeStep) {
      const Words v = load_words(x + j);
      store_words(turn(v, {v.odd, v.even}, cosines + j, sines + j), y + j);
    }
    return j;
  }
  const std::int64_t half = r.rotated / 2;
  for (; j + kRopeStep <= half; j += kRopeStep) {
    const Words a = load_words(x + j), b = load_words(x + half + j);
    store_words(turn(a, b, cosines + j, sines + j), y + j);
    store_words(turn(b, a, cosines + half + j, sines + half + j), y + half + j);
  }
  return j;
}

template <class E>
HWY_INLINE void rotate_halves(const typename E::T* x, const RopeRows& r,
                              const float* cosines, typename E::T* y) {
  const RopeD d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t half = r.rotated / 2;
  const float* sines = cosines + r.rotated;
  std::int64_t j = 0;
  if constexpr (std::is_same_v<E, RopeBf16>) j = rotate_words(x, r, cosines, y);
  for (; j + step <= half; j += step) {
    const auto a = E::load(x + j), b = E::load(x + half + j);
    const auto first = hn::MulAdd(b, hn::LoadU(d, sines + j),
                                  hn::Mul(a, hn::LoadU(d, cosines + j)));
    const auto second =
        hn::MulAdd(a, hn::LoadU(d, sines + half + j),
                   hn::Mul(b, hn::LoadU(d, cosines + half + j)));
    E::store(first, y + j);
    E::store(second, y + half + j);
  }
  for (; j < half; ++j) {
    rotate_one<E>(x, j, r, cosines, y);
    rotate_one<E>(x, half + j, r, cosines, y);
  }
}

template <class E>
HWY_INLINE void rotate_pairs(const typename E::T* x, const RopeRows& r,
                             const float* cosines, typename E::T* y) {
  const RopeD d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t j = 0;
  if constexpr (std::is_same_v<E, RopeBf16>) j = rotate_words(x, r, cosines, y);
  for (; j + step <= r.rotated; j += step) {
    const auto v = E::load(x + j);
    const auto partner = hn::Shuffle2301(v);
    E::store(hn::MulAdd(partner, hn::LoadU(d, cosines + r.rotated + j),
                        hn::Mul(v, hn::LoadU(d, cosines + j))),
             y + j);
  }
  for (; j < r.rotated; ++j) rotate_one<E>(x, j, r, cosines, y);
}

template <class E>
void rotate_heads(const RopeRows& r, const float* cosines) {
  using T = typename E::T;
  for (std::int64_t h = 0; h < r.heads; ++h) {
    const T* x = reinterpret_cast<const T*>(r.from) + h * r.from_stride;
    T* y = reinterpret_cast<T*>(r.to) + h * r.to_stride;
    if (r.interleaved)
      rotate_pairs<E>(x, r, cosines, y);
    else
      rotate_halves<E>(x, r, cosines, y);
    if (r.dim > r.rotated)
      std::memcpy(y + r.rotated, x + r.rotated,
                  static_cast<std::size_t>(r.dim - r.rotated) * sizeof(T));
  }
}

void rope_rotate(const RopeRows& r, const void* table) {
  const auto* cosines = static_cast<const float*>(table);
  if (r.dtype == DType::kF32)
    rotate_heads<RopeF32>(r, cosines);
  else if (r.dtype == DType::kBF16)
    rotate_heads<RopeBf16>(r, cosines);
  else
    rotate_heads<RopeF16>(r, cosines);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
