// fp32 to the codes of one 8-bit float format and back, lane by lane.
// A part of cast.cpp and block_quant.cpp, after cast_row-inl.h: no guard, no
// includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <DType kFormat>
struct Fp8 {
  static constexpr const DTypeTraits& kTraits = traits(kFormat);
  static constexpr bool kFnuz = kTraits.specials == Specials::kFnuz;
  static constexpr int kMantissa = kTraits.mantissa_bits;
  // Exponent field of fp32 for the smallest normal value of the format.
  static constexpr std::uint32_t kMinField =
      static_cast<std::uint32_t>(128 - kTraits.bias);
  static constexpr std::uint32_t kLargest = std::bit_cast<std::uint32_t>(
      static_cast<float>(decode_float(kFormat, max_finite_code(kFormat))));
  static constexpr std::uint32_t kNan =
      static_cast<std::uint32_t>(nan_code(kFormat));

  // Codes of numbers >= 0 in the low bytes; the bytes above are undefined.
  //
  // `power` is the power of two below v, but at least that of the smallest
  // normal value. v + power * 2^(23 - mantissa), rounded once, has v in units
  // of its last place, to nearest even, at its end. The exponent joins by
  // integer addition. Its offset rides in the low bits of `power`: it is even,
  // so ties stay where they are.
  static HWY_INLINE VU magnitude_code(VF number) {
    const DF df;
    const DU du;
    constexpr int kShift = 23 - kMantissa;
    constexpr std::uint32_t kOffset =
        (256 - (kMinField << kMantissa) % 256) % 256;
    static_assert(kOffset % 2 == 0);
    const VF units = hn::Set(df, static_cast<float>(1 << kShift));
    const VF least = hn::BitCast(df, hn::Set(du, kMinField << 23));
    const VF v = hn::Min(number, hn::BitCast(df, hn::Set(du, kLargest)));
    const VU power =
        hn::OrAnd(hn::Set(du, kOffset), hn::BitCast(du, hn::Max(v, least)),
                  hn::Set(du, 0x7f800000u));
    const VF sum = hn::MulAdd(hn::BitCast(df, power), units, v);
    return hn::Add(hn::BitCast(du, sum), hn::ShiftRight<kShift>(power));
  }

  // The code in the low byte of each lane; the bytes above are undefined.
  static HWY_INLINE VU encode(VF v) {
    const VU bits = hn::BitCast(DU(), v);
    return finish(v, magnitude_code(hn::Abs(v)), hn::ShiftRight<24>(bits));
  }

  static HWY_INLINE VU finish(VF v, VU code, VU sign) {
    const DU du;
    VU full = hn::OrAnd(code, sign, hn::Set(du, 0x80));
    if constexpr (kFnuz) {  // zero has no sign
      const VU seven = hn::And(code, hn::Set(du, 0x7f));
      full = hn::IfThenElse(hn::Eq(seven, hn::Zero(du)), seven, full);
    }
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    return hn::IfThenElse(nan, hn::Set(du, kNan), full);
  }

  // The values of codes (one a lane, upper bytes zero), exact; a NaN of any
  // payload for a NaN code.
  static HWY_INLINE VF decode(VU code) {
    const DF df;
    const DU du;
    constexpr int kShift = 23 - kMantissa;
    constexpr std::uint32_t kBase = (kMinField - 1) << 23;
    const VU magnitude = hn::And(code, hn::Set(du, 0x7f));
    const VU fields = hn::ShiftLeft<kShift>(magnitude);
    const VU normal = hn::Add(fields, hn::Set(du, kBase));
    // Below the smallest normal value: the same with the leading one made
    // explicit and taken off again, which is exact.
    const VF one = hn::BitCast(df, hn::Set(du, kMinField << 23));
    const VU shifted = hn::Add(fields, hn::Set(du, kMinField << 23));
    const VU low = hn::BitCast(du, hn::Sub(hn::BitCast(df, shifted), one));
    const auto is_low =
        hn::Lt(hn::BitCast(DI(), magnitude), hn::Set(DI(), 1 << kMantissa));
    VU value = hn::IfThenElse(hn::RebindMask(du, is_low), low, normal);
    value = with_specials(code, magnitude, value);
    const VU sign = hn::ShiftLeft<24>(hn::And(code, hn::Set(du, 0x80)));
    return hn::BitCast(df, hn::Or(value, sign));
  }

  static HWY_INLINE VU with_specials(VU code, VU magnitude, VU value) {
    const DU du;
    const VU nan = hn::Set(du, 0x7fc00000);
    if constexpr (kFnuz) {
      const VU only = hn::Set(du, kNan);
      return hn::IfThenElse(hn::Eq(code, only), nan, value);
    } else if constexpr (kTraits.specials == Specials::kFn) {
      const VU only = hn::Set(du, kNan);
      return hn::IfThenElse(hn::Eq(magnitude, only), nan, value);
    } else {
      // All-ones exponent there becomes all-ones here; the mantissa stays.
      constexpr int kFirst = static_cast<int>(max_finite_code(kFormat)) + 1;
      const auto special =
          hn::Gt(hn::BitCast(DI(), magnitude), hn::Set(DI(), kFirst - 1));
      const VU ones = hn::Or(value, hn::Set(du, 0x7f800000));
      return hn::IfThenElse(hn::RebindMask(du, special), ones, value);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
