// bf16 times a power of two to fp8 codes and back, in 16-bit lanes.
// A part of block_quant.cpp, after cast_row-inl.h: no guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A power of two only moves the exponent: with bf16 bits a = E << 7 | M and a
// scale 2^(e - 127) the fp8 magnitude is a - ((e - bias) << 7) without its low
// mantissa bits, rounded to nearest even. What the 16-bit arithmetic does not
// cover is told to the caller, who takes the way through fp32: scales near the
// ends of the range, codes that are subnormal, infinities and NaN.
template <DType kFormat>
struct Bf16Fp8 {
  using D = hn::CappedTag<std::uint16_t, 32>;
  using DS = hn::RebindToSigned<D>;
  using V = hn::Vec<D>;
  static constexpr const DTypeTraits& kTraits = traits(kFormat);
  static constexpr int kMantissa = kTraits.mantissa_bits;
  static constexpr int kShift = 7 - kMantissa;

  // Scales between which no bf16 subnormal and no overflow matters.
  static constexpr bool covers(std::uint8_t scale) {
    return scale >= 32 && scale < 240;
  }
  static constexpr std::uint16_t offset(std::uint8_t scale) {
    return static_cast<std::uint16_t>((scale - kTraits.bias) * 128);
  }

  template <bool kStream>
  static HWY_INLINE void store_codes(V v, std::uint8_t* out) {
    const hn::Rebind<std::uint8_t, D> d8;
#if HWY_TARGET == HWY_AVX3
    const hn::Vec<decltype(d8)> codes{_mm512_cvtepi16_epi8(v.raw)};
#else
    const auto codes = hn::TruncateTo(d8, v);
#endif
    if constexpr (kStream)
      hn::Stream(codes, d8, out);
    else
      hn::StoreU(codes, d8, out);
  }

  // Lanes(D()) codes; false, and `out` garbage, where a lane is not covered.
  // kStream: past the caches, to an `out` aligned to the vector of codes.
  template <bool kStream>
  static HWY_INLINE bool encode(const std::uint16_t* x, V offset,
                                std::uint8_t* out) {
    const D d;
    const DS ds;
    const V bits = hn::LoadU(d, x);
    const V moved = hn::Sub(hn::And(bits, hn::Set(d, 0x7fff)), offset);
    const auto is_low = hn::Lt(hn::BitCast(ds, moved), hn::Set(ds, 0x80));
    // Below half of the smallest subnormal, and zeros.
    const auto is_zero =
        hn::Lt(hn::BitCast(ds, moved), hn::Set(ds, -kMantissa * 128));
    constexpr std::uint16_t kHalf = (1 << (kShift - 1)) - 1;
    const V odd = hn::And(hn::ShiftRight<kShift>(moved), hn::Set(d, 1));
    const V rounded =
        hn::ShiftRight<kShift>(hn::Add(hn::Add(moved, hn::Set(d, kHalf)), odd));
    const V code = hn::IfThenZeroElse(hn::RebindMask(d, is_zero), rounded);
    store_codes<kStream>(
        hn::OrAnd(code, hn::ShiftRight<8>(bits), hn::Set(d, 0x80)), out);
    return hn::AllFalse(ds, hn::AndNot(is_zero, is_low));
  }

  // The way back: exact in bf16 where the code is zero or normal.
  static HWY_INLINE bool decode(const std::uint8_t* codes, V offset,
                                std::uint16_t* out) {
    const D d;
    const DS ds;
    const hn::Rebind<std::uint8_t, D> d8;
    const V code = hn::PromoteTo(d, hn::LoadU(d8, codes));
    const V magnitude = hn::And(code, hn::Set(d, 0x7f));
    const auto is_zero = hn::Eq(magnitude, hn::Zero(d));
    constexpr std::int16_t kBelow = (1 << kMantissa) - 1;  // subnormals
    constexpr auto kAbove =
        static_cast<std::int16_t>(max_finite_code(kFormat) + 1);
    const auto number = hn::BitCast(ds, magnitude);
    const auto covered = hn::Or(hn::RebindMask(ds, is_zero),
                                hn::And(hn::Gt(number, hn::Set(ds, kBelow)),
                                        hn::Lt(number, hn::Set(ds, kAbove))));
    const V moved = hn::Add(hn::ShiftLeft<kShift>(magnitude), offset);
    const V value = hn::IfThenZeroElse(is_zero, moved);
    hn::StoreU(hn::OrAnd(value, hn::ShiftLeft<8>(code), hn::Set(d, 0x8000)), d,
               out);
    return hn::AllTrue(ds, covered);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
