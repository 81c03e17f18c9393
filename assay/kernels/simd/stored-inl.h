// Stored elements (f32, bf16, f16) as vectors of fp32, two vectors at a time,
// and the way back with one rounding to nearest even.
// Included once per instruction set by the kernels that need it: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FTag = hn::CappedTag<float, 16>;
using FVec = hn::Vec<FTag>;
HWY_INLINE std::int64_t float_lanes() {
  return static_cast<std::int64_t>(hn::Lanes(FTag()));
}

HWY_INLINE FVec constant(float x) { return hn::Set(FTag(), x); }

struct TwoVecs {
  FVec a, b;
};

struct StoredF32 {
  using T = float;
  static constexpr T kOne = 1.0f;
  static HWY_INLINE FVec load(const T* p) { return hn::LoadU(FTag(), p); }
  static HWY_INLINE void store(FVec v, T* p) { hn::StoreU(v, FTag(), p); }
  static HWY_INLINE TwoVecs load2(const T* p) {
    return {load(p), load(p + float_lanes())};
  }
  static HWY_INLINE void store2(TwoVecs v, T* p) {
    store(v.a, p);
    store(v.b, p + float_lanes());
  }
};

// The bits of v rounded to bf16, in the high half of each word; NaN becomes
// the quiet NaN without sign. The low half is not cleared.
HWY_INLINE hn::Vec<hn::RebindToUnsigned<FTag>> bf16_words(FVec v) {
  const FTag d;
  const hn::RebindToUnsigned<FTag> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), odd);
  return hn::IfThenElse(hn::RebindMask(du, hn::Eq(v, v)), rounded,
                        hn::Set(du, 0x7fc00000));
}

// Elements in their order: for runs that go with others of another dtype.
struct StoredBf16 {
  using T = std::uint16_t;
  static constexpr T kOne = 0x3f80;
  static HWY_INLINE FVec load(const T* p) {
    const FTag d;
    const hn::RebindToUnsigned<FTag> du;
    const hn::Rebind<std::uint16_t, FTag> d16;
    return hn::BitCast(d,
                       hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(d16, p))));
  }
  static HWY_INLINE void store(FVec v, T* p) {
    const hn::Rebind<std::uint16_t, FTag> d16;
    const auto words = hn::ShiftRight<16>(bf16_words(v));
    // Values below 2^16: the saturation never acts.
    const hn::RebindToSigned<FTag> di;
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, words)), d16, p);
  }
  static HWY_INLINE TwoVecs load2(const T* p) {
    return {load(p), load(p + float_lanes())};
  }
  static HWY_INLINE void store2(TwoVecs v, T* p) {
    store(v.a, p);
    store(v.b, p + float_lanes());
  }
};

// The even elements as the first vector, the odd ones as the second: no
// shuffles. For element-wise work where every run is bf16.
struct StoredBf16Pairs {
  using T = std::uint16_t;
  static constexpr T kOne = 0x3f80;
  static HWY_INLINE TwoVecs load2(const T* p) {
    const FTag d;
    const hn::RebindToUnsigned<FTag> du;
    const hn::Repartition<std::uint16_t, FTag> d16;
    const auto words = hn::BitCast(du, hn::LoadU(d16, p));
    return {hn::BitCast(d, hn::ShiftLeft<16>(words)),
            hn::BitCast(d, hn::And(words, hn::Set(du, 0xffff0000u)))};
  }
  static HWY_INLINE auto pack(TwoVecs v) {
    const hn::RebindToUnsigned<FTag> du;
    const hn::Repartition<std::uint16_t, FTag> d16;
    const auto low = hn::ShiftRight<16>(bf16_words(v.a));
    const auto high = hn::And(bf16_words(v.b), hn::Set(du, 0xffff0000u));
    return hn::BitCast(d16, hn::Or(low, high));
  }
  static HWY_INLINE void store2(TwoVecs v, T* p) {
    hn::StoreU(pack(v), hn::Repartition<std::uint16_t, FTag>(), p);
  }
};

struct StoredF16 {
  using T = std::uint16_t;
  static constexpr T kOne = 0x3c00;
  using D16 = hn::Rebind<hwy::float16_t, FTag>;
  static HWY_INLINE FVec load(const T* p) {
    return hn::PromoteTo(
        FTag(), hn::LoadU(D16(), reinterpret_cast<const hwy::float16_t*>(p)));
  }
  // NaN becomes the quiet NaN without sign, as in every encoder of ours.
  static HWY_INLINE void store(FVec v, T* p) {
    const FTag d;
    const hn::RebindToUnsigned<FTag> du;
    const auto clean = hn::IfThenElse(hn::Eq(v, v), v,
                                      hn::BitCast(d, hn::Set(du, 0x7fc00000)));
    hn::StoreU(hn::DemoteTo(D16(), clean), D16(),
               reinterpret_cast<hwy::float16_t*>(p));
  }
  static HWY_INLINE TwoVecs load2(const T* p) {
    return {load(p), load(p + float_lanes())};
  }
  static HWY_INLINE void store2(TwoVecs v, T* p) {
    store(v.a, p);
    store(v.b, p + float_lanes());
  }
};

// Asks for the lines that a loop over `count` elements at p will reach soon.
// The hardware does so within a page and starts anew in each. An address past
// the end is harmless.
template <typename T>
HWY_INLINE void fetch_ahead(const T* p, std::int64_t count) {
  constexpr std::int64_t kAhead = 2048, kLine = 64;
  const char* bytes = reinterpret_cast<const char*>(p) + kAhead;
  const std::int64_t size = count * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t at = 0; at < size; at += kLine)
    __builtin_prefetch(bytes + at);
}

// How a run of In is read where the outputs are Out.
template <class In, class Out>
struct Paired {
  using Load = In;
  using Store = Out;
};
template <>
struct Paired<StoredBf16, StoredBf16> {
  using Load = StoredBf16Pairs;
  using Store = StoredBf16Pairs;
};

// Calls fn(const TwoVecs (&in)[kIn], TwoVecs (&out)[kOut]) over runs of n
// elements; the end of a run goes through a padded copy, so that every element
// sees the same instructions. Lanes beyond n are zeros.
template <class In, int kIn, class Out, int kOut, class Fn>
HWY_INLINE void map_runs(const void* const (&in)[kIn], std::int64_t n,
                         void* const (&out)[kOut], const Fn& fn) {
  using Load = typename Paired<In, Out>::Load;
  using Store = typename Paired<In, Out>::Store;
  using TIn = typename In::T;
  using TOut = typename Out::T;
  const std::int64_t step = 2 * float_lanes();
  TwoVecs vin[kIn], vout[kOut];
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    for (int k = 0; k < kIn; ++k) {
      const TIn* from = static_cast<const TIn*>(in[k]) + i;
      fetch_ahead(from, step);
      vin[k] = Load::load2(from);
    }
    fn(vin, vout);
    for (int k = 0; k < kOut; ++k) {
      TOut* to = static_cast<TOut*>(out[k]) + i;
      fetch_ahead(to, step);
      Store::store2(vout[k], to);
    }
  }
  if (i == n) return;
  const auto rest = static_cast<std::size_t>(n - i);
  for (int k = 0; k < kIn; ++k) {
    alignas(64) TIn padded[32] = {};
    std::memcpy(padded, static_cast<const TIn*>(in[k]) + i, rest * sizeof(TIn));
    vin[k] = Load::load2(padded);
  }
  fn(vin, vout);
  for (int k = 0; k < kOut; ++k) {
    alignas(64) TOut padded[32];
    Store::store2(vout[k], padded);
    std::memcpy(static_cast<TOut*>(out[k]) + i, padded, rest * sizeof(TOut));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
