// The activations on vectors of fp32: value, and value with derivative.
// A part of activation.cpp, which includes it once per instruction set, after
// gelu-inl.h: no guard.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {

struct Silu {
  static HWY_INLINE FVec value(FVec x) { return divide_by_logistic(x, x); }
  static HWY_INLINE ValueAndSlope both(FVec x) {
    return gate_by(x, x, constant(1.0f));
  }
};

struct QGelu {
  static HWY_INLINE FVec value(FVec x) {
    return divide_by_logistic(x, hn::Mul(constant(1.702f), x));
  }
  static HWY_INLINE ValueAndSlope both(FVec x) {
    return gate_by(x, hn::Mul(constant(1.702f), x), constant(1.702f));
  }
};

// NaN gives 0, as fmaxf and the comparison of NVTE's kernels do.
struct Relu {
  static HWY_INLINE FVec value(FVec x) {
    return hn::IfThenElseZero(hn::Gt(x, constant(0.0f)), x);
  }
  static HWY_INLINE ValueAndSlope both(FVec x) {
    const auto positive = hn::Gt(x, constant(0.0f));
    return {hn::IfThenElseZero(positive, x),
            hn::IfThenElseZero(positive, constant(1.0f))};
  }
};

struct SRelu {
  static HWY_INLINE FVec value(FVec x) {
    return hn::IfThenElseZero(hn::Gt(x, constant(0.0f)), hn::Mul(x, x));
  }
  static HWY_INLINE ValueAndSlope both(FVec x) {
    const auto positive = hn::IfThenElseZero(hn::Gt(x, constant(0.0f)), x);
    return {hn::Mul(positive, positive), hn::Add(positive, positive)};
  }
};

struct Sigmoid {
  static HWY_INLINE FVec value(FVec x) {
    return divide_by_logistic(constant(1.0f), x);
  }
  static HWY_INLINE ValueAndSlope both(FVec x) {
    const Logistic l = logistic(x);
    return {l.s, l.slope};
  }
};

// Of a gated form: both factors, and their derivatives.
struct Factors {
  ValueAndSlope gate, linear;
};

// act(a) * b for any act.
template <class Act>
struct Plain {
  explicit HWY_INLINE Plain(const ActivationParams&) {}
  HWY_INLINE FVec value(FVec a, FVec b) const {
    return hn::Mul(Act::value(a), b);
  }
  HWY_INLINE Factors factors(FVec a, FVec b) const {
    return {Act::both(a), {b, constant(1.0f)}};
  }
};

// The clamps take a NaN for the bound, as CUDA's min and max do: for +limit in
// the gate, for -limit in the linear half.
struct ClampedSwiglu {
  const FVec limit, alpha, offset;
  explicit HWY_INLINE ClampedSwiglu(const ActivationParams& p)
      : limit(constant(p.limit)),
        alpha(constant(p.alpha)),
        offset(constant(p.linear_offset)) {}

  HWY_INLINE FVec gate(FVec a) const {
    return hn::IfThenElse(hn::Lt(a, limit), a, limit);
  }
  HWY_INLINE FVec linear(FVec b) const {
    const auto low = hn::Neg(limit);
    const auto raised = hn::IfThenElse(hn::Gt(b, low), b, low);
    const auto clamped = hn::IfThenElse(hn::Lt(raised, limit), raised, limit);
    return hn::Add(clamped, offset);
  }
  HWY_INLINE FVec value(FVec a, FVec b) const {
    const auto g = gate(a);
    return hn::Mul(divide_by_logistic(g, hn::Mul(alpha, g)), linear(b));
  }
  HWY_INLINE Factors factors(FVec a, FVec b) const {
    const auto g = gate(a);
    ValueAndSlope act = gate_by(g, hn::Mul(alpha, g), alpha);
    act.slope = hn::IfThenElseZero(hn::Le(a, limit), act.slope);
    const auto inside = hn::And(hn::Ge(b, hn::Neg(limit)), hn::Le(b, limit));
    return {act, {linear(b), hn::IfThenElseZero(inside, constant(1.0f))}};
  }
};

struct Situglu {
  const FVec beta1, beta2, inverse1, inverse2;
  explicit HWY_INLINE Situglu(const ActivationParams& p)
      : beta1(constant(p.beta1)),
        beta2(constant(p.beta2)),
        inverse1(constant(1.0f / p.beta1)),
        inverse2(constant(1.0f / p.beta2)) {}

  HWY_INLINE FVec value(FVec a, FVec b) const {
    const auto gate =
        hn::Mul(hn::Mul(beta1, tanh(hn::Mul(a, inverse1))), logistic(a).s);
    return hn::Mul(gate, hn::Mul(beta2, tanh(hn::Mul(b, inverse2))));
  }
  HWY_INLINE Factors factors(FVec a, FVec b) const {
    const auto one = constant(1.0f);
    const auto t = tanh(hn::Mul(a, inverse1));
    const Logistic l = logistic(a);
    const auto bounded = hn::Mul(beta1, t);
    const auto flat = hn::Mul(hn::Sub(one, t), hn::Add(one, t));  // 1 - t^2
    const auto v = tanh(hn::Mul(b, inverse2));
    return {{hn::Mul(bounded, l.s),
             hn::MulAdd(flat, l.s, hn::Mul(bounded, l.slope))},
            {hn::Mul(beta2, v), hn::Mul(hn::Sub(one, v), hn::Add(one, v))}};
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
