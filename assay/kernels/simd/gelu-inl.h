// gelu (tanh form) on vectors of fp32: value, and value with derivative.
// Included once per instruction set, after exp-inl.h: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct ValueAndSlope {
  FVec value, slope;
};

// x logistic(u) and its derivative x slope(u) u' + logistic(u).
HWY_INLINE ValueAndSlope gate_by(FVec x, FVec u, FVec du) {
  const Logistic l = logistic(u);
  // The slope first: it is 0 where x u' could overflow.
  return {hn::Mul(x, l.s), hn::MulAdd(hn::Mul(x, l.slope), du, l.s)};
}

struct Gelu {
  static HWY_INLINE FVec value(FVec x) {
    const auto square = hn::Mul(x, x);
    const auto u = hn::Mul(x, hn::MulAdd(square, constant(2 * 0.03567741f),
                                         constant(2 * 0.79788456f)));
    return divide_by_logistic(x, u);
  }
  // The derivative's own constants (NVTE: dgelu); they move its u by less
  // than an ulp against that of the forward.
  static HWY_INLINE ValueAndSlope both(FVec x) {
    // Bounded, so that 0 times it stays 0.
    const auto square = hn::Min(constant(1e30f), hn::Mul(x, x));
    const auto u =
        hn::Mul(hn::Mul(constant(2 * 0.79788456f), x),
                hn::MulAdd(square, constant(0.044715f), constant(1.0f)));
    const auto du = hn::MulAdd(square, constant(2 * 0.1070322243f),
                               constant(2 * 0.79788456f));
    return gate_by(x, u, du);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
