// Vectors of 16-bit codes as fp32, exact, and whole arrays as fp64.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Of a step of 32 codes at `p`, the two vectors that belong to the lanes from
// `lane` on. Even codes are the low halves of 32-bit words, odd ones the high
// halves: no shuffle.
struct Bf16 {
  template <class DF>
  static HWY_INLINE auto words(DF, const std::uint16_t* p, std::int64_t lane) {
    const hn::Repartition<std::uint16_t, DF> d16;
    return hn::BitCast(hn::RebindToUnsigned<DF>(),
                       hn::LoadU(d16, p + 2 * lane));
  }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> first(DF d, const std::uint16_t* p,
                                      std::int64_t lane) {
    return hn::BitCast(d, hn::ShiftLeft<16>(words(d, p, lane)));
  }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> second(DF d, const std::uint16_t* p,
                                       std::int64_t lane) {
    const auto high = hn::Set(hn::RebindToUnsigned<DF>(), 0xffff0000u);
    return hn::BitCast(d, hn::And(words(d, p, lane), high));
  }
  static double value(std::uint16_t code) { return bf16_value(code); }
};

struct F16 {
  template <class DF>
  static HWY_INLINE hn::Vec<DF> load(DF d, const std::uint16_t* p) {
    const hn::Rebind<hwy::float16_t, DF> d16;
    return hn::PromoteTo(
        d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
  }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> first(DF d, const std::uint16_t* p,
                                      std::int64_t lane) {
    return load(d, p + lane);
  }
  template <class DF>
  static HWY_INLINE hn::Vec<DF> second(DF d, const std::uint16_t* p,
                                       std::int64_t lane) {
    return load(d, p + kLanes + lane);
  }
  static double value(std::uint16_t code) { return f16_value(code); }
};

HWY_INLINE void widen_vector(hn::Vec<hn::CappedTag<float, kLanes>> v,
                             double* out) {
  const hn::CappedTag<float, kLanes> d;
  const hn::Half<decltype(d)> half;
  const hn::Repartition<double, decltype(d)> dd;
  hn::StoreU(hn::PromoteTo(dd, hn::LowerHalf(v)), dd, out);
  hn::StoreU(hn::PromoteTo(dd, hn::UpperHalf(half, v)), dd,
             out + hn::Lanes(dd));
}

inline void widen_f32(const float* in, std::int64_t n, double* out) {
  const hn::CappedTag<float, kLanes> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= n; i += step) widen_vector(hn::LoadU(d, in + i), out + i);
  for (; i < n; ++i) out[i] = in[i];
}

inline void widen_bf16(const std::uint16_t* in, std::int64_t n, double* out) {
  const hn::CappedTag<float, kLanes> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<std::uint16_t, decltype(d)> d16;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    const auto wide = hn::PromoteTo(du, hn::LoadU(d16, in + i));
    widen_vector(hn::BitCast(d, hn::ShiftLeft<16>(wide)), out + i);
  }
  for (; i < n; ++i) out[i] = bf16_value(in[i]);
}

inline void widen_f16(const std::uint16_t* in, std::int64_t n, double* out) {
  const hn::CappedTag<float, kLanes> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= n; i += step) widen_vector(F16::load(d, in + i), out + i);
  for (; i < n; ++i) out[i] = f16_value(in[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
