// Sine and cosine of fp32 angles of any size, through fp64.
// A part of a family's .cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Vectors of fp64, and the fp32 vectors of as many lanes.
using SinCosD = hn::CappedTag<double, 8>;
using SinCosF = hn::Rebind<float, SinCosD>;

struct SinCos {
  hn::Vec<SinCosD> sin, cos;
};

// Taylor series on [-pi/4, pi/4] up to r^11 and r^12: errors below 3e-11 and
// 1e-11, far under half an ulp of fp32. The quadrant is read from the low bits
// of angle * 2/pi + 1.5 * 2^52. NaN and infinity give NaN.
HWY_INLINE SinCos sincos_of(hn::Vec<SinCosD> x) {
  const SinCosD d;
  const hn::RebindToUnsigned<SinCosD> du;
  const auto magic = hn::Set(d, 0x1.8p52);
  const auto shifted =
      hn::MulAdd(x, hn::Set(d, 0x1.45f306dc9c883p-1), magic);  // 2 / pi
  const auto n = hn::Sub(shifted, magic);
  // pi/2 as two doubles.
  auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.921fb54442d18p+0), x);
  r = hn::NegMulAdd(n, hn::Set(d, 0x1.1a62633145c07p-54), r);
  const auto r2 = hn::Mul(r, r);
  auto s =
      hn::MulAdd(r2, hn::Set(d, -1.0 / 39916800), hn::Set(d, 1.0 / 362880));
  s = hn::MulAdd(r2, s, hn::Set(d, -1.0 / 5040));
  s = hn::MulAdd(r2, s, hn::Set(d, 1.0 / 120));
  s = hn::MulAdd(r2, s, hn::Set(d, -1.0 / 6));
  s = hn::MulAdd(hn::Mul(r2, s), r, r);
  auto c =
      hn::MulAdd(r2, hn::Set(d, 1.0 / 479001600), hn::Set(d, -1.0 / 3628800));
  c = hn::MulAdd(r2, c, hn::Set(d, 1.0 / 40320));
  c = hn::MulAdd(r2, c, hn::Set(d, -1.0 / 720));
  c = hn::MulAdd(r2, c, hn::Set(d, 1.0 / 24));
  c = hn::MulAdd(r2, c, hn::Set(d, -0.5));
  c = hn::MulAdd(r2, c, hn::Set(d, 1.0));
  const auto quadrant = hn::BitCast(du, shifted);
  const auto one = hn::Set(du, 1), two = hn::Set(du, 2);
  const auto odd = hn::RebindMask(d, hn::TestBit(quadrant, one));
  const auto sin_sign = hn::ShiftLeft<62>(hn::And(quadrant, two));
  const auto cos_sign = hn::ShiftLeft<62>(hn::And(hn::Add(quadrant, one), two));
  const auto sin = hn::IfThenElse(odd, c, s);
  const auto cos = hn::IfThenElse(odd, s, c);
  return {hn::Xor(sin, hn::BitCast(d, sin_sign)),
          hn::Xor(cos, hn::BitCast(d, cos_sign))};
}

// n of them, to fp32.
inline void sincos_row(const float* angles, std::int64_t n, float* sin,
                       float* cos) {
  const SinCosD d;
  const SinCosF df;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + step <= n; i += step) {
    const SinCos v = sincos_of(hn::PromoteTo(d, hn::LoadU(df, angles + i)));
    hn::StoreU(hn::DemoteTo(df, v.sin), df, sin + i);
    hn::StoreU(hn::DemoteTo(df, v.cos), df, cos + i);
  }
  if (i == n) return;
  float rest[8] = {}, sines[8], cosines[8];
  std::copy(angles + i, angles + n, rest);
  const SinCos v = sincos_of(hn::PromoteTo(d, hn::LoadU(df, rest)));
  hn::StoreU(hn::DemoteTo(df, v.sin), df, sines);
  hn::StoreU(hn::DemoteTo(df, v.cos), df, cosines);
  std::copy(sines, sines + (n - i), sin + i);
  std::copy(cosines, cosines + (n - i), cos + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
