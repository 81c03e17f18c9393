// 2^x, masks from bits, sums of lanes.
// A part of attention.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// NEON and AVX2 have registers of 4 and 8; 16 is the widest a column group is.
using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;
inline constexpr std::int64_t kWidth = HWY_TARGET == HWY_AVX3   ? 16
                                       : HWY_TARGET == HWY_AVX2 ? 8
                                                                : 4;

HWY_INLINE VF exp2_of(VF x) {
  const DF d;
  const hn::RebindToSigned<DF> di;
  const auto least = hn::Set(d, kExp2Least);
  const auto greatest = hn::Set(d, kExp2Greatest);
  // Written so that NaN stays.
  x = hn::IfThenElse(hn::Lt(x, least), least, x);
  x = hn::IfThenElse(hn::Gt(x, greatest), greatest, x);
  const auto whole = hn::Round(x);
  const auto r = hn::Sub(x, whole);
  auto p = hn::MulAdd(hn::Set(d, kExp2C5), r, hn::Set(d, kExp2C4));
  p = hn::MulAdd(p, r, hn::Set(d, kExp2C3));
  p = hn::MulAdd(p, r, hn::Set(d, kExp2C2));
  p = hn::MulAdd(p, r, hn::Set(d, kExp2C1));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  // Two factors: one alone has no exponent for the subnormal results.
  const auto n = hn::ConvertTo(di, whole);
  const auto half = hn::ShiftRight<1>(n);
  const auto bias = hn::Set(di, 127);
  const auto low = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const auto high =
      hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(n, half), bias)));
  return hn::Mul(hn::Mul(p, low), high);
}

// Bits [column, column + lanes) of a word.
HWY_INLINE hn::Mask<DF> mask_of(std::uint64_t word, std::int64_t column) {
  const std::uint64_t bits = word >> column;
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, 8);
  return hn::LoadMaskBits(DF(), bytes);
}

// The greater of the two; a NaN in x loses.
HWY_INLINE VF greater(VF x, VF best) {
  return hn::IfThenElse(hn::Gt(x, best), x, best);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
