// normal_quantile() of numerics/basic_math.h by vectors, the same operations
// in the same order: no fused multiply-add, which would give other bits.
// Included once per instruction set by the kernels that need it: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using QTag = hn::CappedTag<double, 8>;
using QVec = hn::Vec<QTag>;

HWY_INLINE QVec number(double x) { return hn::Set(QTag(), x); }

template <std::size_t N>
HWY_INLINE QVec polynomial(const double (&coefficients)[N], QVec x) {
  QVec sum = hn::Zero(QTag());
  for (std::size_t i = N; i-- > 0;)
    sum = hn::Add(hn::Mul(sum, x), number(coefficients[i]));
  return sum;
}

// Right where |p - 1/2| is at most kCentral.
HWY_INLINE QVec central_quantile(QVec p) {
  const QVec q = hn::Sub(p, number(0.5));
  const QVec r = hn::Sub(number(0.180625), hn::Mul(q, q));
  return hn::Div(hn::Mul(q, polynomial(as241::kA, r)),
                 polynomial(as241::kB, r));
}

// basic_log() of normal x > 0.
HWY_INLINE QVec log_of(QVec x) {
  const QTag d;
  const hn::RebindToSigned<QTag> di;
  const auto bits = hn::BitCast(di, x);
  auto exponent = hn::Sub(hn::ShiftRight<52>(bits), hn::Set(di, 1022));
  QVec m = hn::BitCast(d, hn::Or(hn::And(bits, hn::Set(di, 0xfffffffffffff)),
                                 hn::Set(di, 0x3fe0000000000000)));
  const auto small = hn::Lt(m, number(0x1.6a09e667f3bcdp-1));
  m = hn::IfThenElse(small, hn::Add(m, m), m);
  exponent = hn::Add(exponent, hn::BitCast(di, hn::VecFromMask(d, small)));
  const QVec s = hn::Div(hn::Sub(m, number(1)), hn::Add(m, number(1)));
  const QVec square = hn::Mul(s, s);
  QVec sum = hn::Zero(d);
  for (int k = 21; k >= 1; k -= 2)
    sum = hn::Add(hn::Mul(sum, square), number(1.0 / k));
  return hn::Add(
      hn::Mul(hn::ConvertTo(d, exponent), number(0x1.62e42fefa39efp-1)),
      hn::Mul(hn::Mul(number(2), s), sum));
}

// Right where |p - 1/2| is above kCentral, but for `far`: some element is
// beyond the second range.
HWY_INLINE QVec tail_quantile(QVec p, bool& far) {
  const QTag d;
  const QVec q = hn::Sub(p, number(0.5));
  const auto lower = hn::Lt(q, hn::Zero(d));
  const QVec tail = hn::Sqrt(
      hn::Neg(log_of(hn::IfThenElse(lower, p, hn::Sub(number(1), p)))));
  far = !hn::AllTrue(d, hn::Le(tail, number(as241::kFar)));
  const QVec r = hn::Sub(tail, number(1.6));
  const QVec z = hn::Div(polynomial(as241::kC, r), polynomial(as241::kD, r));
  return hn::IfThenElse(lower, hn::Neg(z), z);
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
