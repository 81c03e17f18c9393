// exp, the logistic function and tanh for vectors of fp32.
//
// exp: x = n ln2 + r with |r| <= ln2/2, a minimax polynomial of degree 6 in r
// (Remez, relative error 3.1e-9 = 0.05 u), and 2^n by exponent arithmetic. ln2
// is one fp32 number: its error of 1.9e-9 moves the result by |x| / 22 u, less
// than what one rounding of x does. Only fused multiply-adds, so that every
// instruction set gives the same bits.
// Included once per instruction set, after stored-inl.h: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// p * 2^n for integers n in [-252, 254]; p is near 1 and one rounding is made
// where the result is subnormal.
HWY_INLINE FVec scale_by_pow2(FVec p, FVec n) {
#if HWY_TARGET == HWY_AVX3
  return FVec{_mm512_scalef_ps(p.raw, n.raw)};
#else
  const FTag d;
  const hn::RebindToSigned<FTag> di;
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const auto first = hn::ShiftLeft<23>(hn::Add(half, bias));
  const auto second = hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias));
  return hn::Mul(hn::Mul(p, hn::BitCast(d, first)), hn::BitCast(d, second));
#endif
}

// x = n ln2 + r for |x| < 2^22 ln2; `tail` is (exp(r) - 1) / r.
struct ReducedExp {
  FVec n, r, tail;
};

HWY_INLINE FVec exp_tail(FVec r) {
  const FTag d;
  auto p = hn::Set(d, 0.00138145401768f);
  p = hn::MulAdd(p, r, hn::Set(d, 0.00836874510894f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0416683907835f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666520399f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.499999934321f));
  return hn::MulAdd(p, r, hn::Set(d, 1.0f));
}

HWY_INLINE ReducedExp reduce_exp(FVec x) {
  const FTag d;
  const auto shift = hn::Set(d, 0x1.8p23f);  // rounds to an integer when added
  const auto n =
      hn::Sub(hn::MulAdd(x, hn::Set(d, 0x1.715476p+0f), shift), shift);
  const auto r = hn::NegMulAdd(n, hn::Set(d, 0x1.62e430p-1f), x);
  return {n, r, exp_tail(r)};
}

// e^-x for x in [-89, 105]: infinite below -88.7, 0 above 104.
HWY_INLINE FVec exp_of_negative(FVec x) {
  const FTag d;
  const auto shift = hn::Set(d, 0x1.8p23f);
  const auto n =
      hn::Sub(hn::NegMulAdd(x, hn::Set(d, 0x1.715476p+0f), shift), shift);
  const auto r = hn::NegMulSub(n, hn::Set(d, 0x1.62e430p-1f), x);
  return scale_by_pow2(hn::MulAdd(exp_tail(r), r, hn::Set(d, 1.0f)), n);
}

// e^x for x <= 88; below -104 it is 0, NaN stays NaN. Subnormal results are
// kept. Error at most (1.2 + |x| / 20) u, tests/kernels/softmax_test.cpp.
HWY_INLINE FVec exp_to_88(FVec x) {
  const FTag d;
  // In this order a NaN is what max returns.
  const auto e = reduce_exp(hn::Max(hn::Set(d, -105.0f), x));
  const auto p = hn::MulAdd(e.tail, e.r, hn::Set(d, 1.0f));
  return scale_by_pow2(p, e.n);
}

// x / (1 + e^-u). Where u is below -88.7 the denominator is infinite and the
// quotient 0: with |x| up to |u| less than 2^-120 is lost.
HWY_INLINE FVec divide_by_logistic(FVec x, FVec u) {
  const FTag d;
  // In this order a NaN is what both return.
  const auto bounded =
      hn::Min(hn::Set(d, 105.0f), hn::Max(hn::Set(d, -89.0f), u));
  const auto e = exp_of_negative(bounded);
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), e));
}

// s = 1 / (1 + e^-x), its derivative s (1 - s). With e = e^-|x| <= 1 neither
// overflows nor cancels, on either side.
struct Logistic {
  FVec s, slope;
};

HWY_INLINE Logistic logistic(FVec x) {
  const FTag d;
  const auto one = hn::Set(d, 1.0f);
  const auto e = exp_to_88(hn::Or(x, hn::SignBit(d)));  // of -|x|
  const auto q = hn::Div(one, hn::Add(one, e));
  const auto small = hn::Mul(e, q);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), small, q), hn::Mul(small, q)};
}

// tanh(x) = m / (m + 2) with m = e^(2|x|) - 1, which keeps small x exact.
HWY_INLINE FVec tanh(FVec x) {
  const FTag d;
  const auto magnitude = hn::Abs(x);
  // From 10 on tanh is 1 to the last bit. NaN is what min returns.
  const auto twice =
      hn::Mul(hn::Set(d, 2.0f), hn::Min(hn::Set(d, 10.0f), magnitude));
  const auto e = reduce_exp(twice);
  const auto power = scale_by_pow2(hn::Set(d, 1.0f), e.n);
  const auto m =
      hn::MulAdd(power, hn::Mul(e.tail, e.r), hn::Sub(power, hn::Set(d, 1.0f)));
  const auto t = hn::Div(m, hn::Add(m, hn::Set(d, 2.0f)));
  return hn::CopySign(t, x);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
