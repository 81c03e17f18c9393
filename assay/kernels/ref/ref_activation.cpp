// The activations in fp64, one element after the other, each as its formula
// is written.
#include "assay/kernels/ref/ref_activation.h"

#include <algorithm>
#include <cmath>

#include "assay/kernels/ref/ref_stored.h"

namespace assay {
namespace {

// A factor of an activation and its derivative.
struct Term {
  double value, slope;
};

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// x logistic(u); `du` is du/dx.
Term gate_by(double x, double u, double du) {
  const double s = logistic(u);
  return {x * s, x * (s * logistic(-u)) * du + s};
}

// The two forms of u are NVTE's: the constants of gelu and of dgelu.
Term gelu(double x) {
  const double u = x * (0.79788456 + 0.03567741 * x * x);
  const double v = 0.79788456 * x * (1 + 0.044715 * x * x);
  const double dv = 0.79788456 + 0.1070322243 * x * x;
  return {x * logistic(2 * u), gate_by(x, 2 * v, 2 * dv).slope};
}

// What is not above 0, NaN included, is 0: fmaxf.
Term relu(double x) { return {x > 0 ? x : 0, x > 0 ? 1.0 : 0.0}; }
Term srelu(double x) { return {x > 0 ? x * x : 0, x > 0 ? 2 * x : 0}; }

Term sigmoid(double x) {
  const double s = logistic(x);
  return {s, s * logistic(-x)};
}

Term gate_term(Activation act, double a, const ActivationParams& p) {
  switch (act) {
    case Activation::kGelu:
    case Activation::kGeglu:
      return gelu(a);
    case Activation::kSilu:
    case Activation::kSwiglu:
      return gate_by(a, a, 1);
    case Activation::kRelu:
    case Activation::kReglu:
      return relu(a);
    case Activation::kQGelu:
    case Activation::kQGeglu:
      return gate_by(a, 1.702 * a, 1.702);
    case Activation::kSRelu:
    case Activation::kSreglu:
      return srelu(a);
    case Activation::kGlu:
      return sigmoid(a);
    case Activation::kClampedSwiglu: {
      const double gate = a < p.limit ? a : p.limit;
      Term t = gate_by(gate, p.alpha * gate, p.alpha);
      if (!(a <= p.limit)) t.slope = 0;
      return t;
    }
    case Activation::kSituglu: {
      const double t = std::tanh(a / p.beta1);
      const Term s = sigmoid(a);
      return {p.beta1 * t * s.value,
              (1 - t * t) * s.value + p.beta1 * t * s.slope};
    }
  }
  return {};
}

Term linear_term(Activation act, double b, const ActivationParams& p) {
  const double limit = p.limit;
  if (act == Activation::kClampedSwiglu) {
    const double raised = b > -limit ? b : -limit;
    return {(raised < limit ? raised : limit) + p.linear_offset,
            b >= -limit && b <= limit ? 1.0 : 0.0};
  }
  if (act == Activation::kSituglu) {
    const double t = std::tanh(b / p.beta2);
    return {p.beta2 * t, 1 - t * t};
  }
  return {b, 1};
}

template <Activation act, DType in, DType out>
void unary(const void* x, std::int64_t n, float scale, void* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = gate_term(act, ref::load(in, x, i), {}).value;
    ref::store(out, value * static_cast<double>(scale), y, i);
  }
}

template <Activation act, DType in, DType out>
void unary_grad(const void* dy, const void* x, std::int64_t n, float scale,
                void* dx, double* dot) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Term term = gate_term(act, ref::load(in, x, i), {});
    const double g = ref::load(in, dy, i);
    ref::store(out, g * term.slope * static_cast<double>(scale), dx, i);
    if (dot != nullptr) *dot += g * term.value;
  }
}

template <Activation act, DType in, DType out>
void gated(const void* gate, const void* linear, std::int64_t n,
           const ActivationParams& params, float scale, void* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double a = gate_term(act, ref::load(in, gate, i), params).value;
    const double b = linear_term(act, ref::load(in, linear, i), params).value;
    ref::store(out, a * b * static_cast<double>(scale), y, i);
  }
}

template <Activation act, DType in, DType out>
void gated_grad(const void* dy, const void* gate, const void* linear,
                std::int64_t n, const ActivationParams& params, float scale,
                void* dgate, void* dlinear, double* dot) {
  for (std::int64_t i = 0; i < n; ++i) {
    const Term a = gate_term(act, ref::load(in, gate, i), params);
    const Term b = linear_term(act, ref::load(in, linear, i), params);
    const double g = ref::load(in, dy, i);
    const double scaled = g * static_cast<double>(scale);
    ref::store(out, a.slope * b.value * scaled, dgate, i);
    ref::store(out, a.value * b.slope * scaled, dlinear, i);
    if (dot != nullptr) *dot += g * a.value * b.value;
  }
}

// pick.template operator()<in, out>() for the dtypes.
template <class Pick>
auto with_dtypes(DType in, DType out, const Pick& pick) {
  using enum DType;
  if (in == kBF16)
    return out == in ? pick.template operator()<kBF16, kBF16>()
                     : pick.template operator()<kBF16, kF32>();
  if (in == kF16)
    return out == in ? pick.template operator()<kF16, kF16>()
                     : pick.template operator()<kF16, kF32>();
  return pick.template operator()<kF32, kF32>();
}

template <int act = 0, class Pick>
auto with_activation(Activation wanted, const Pick& pick) {
  if constexpr (act + 1 < kActivationCount)
    if (static_cast<int>(wanted) != act)
      return with_activation<act + 1>(wanted, pick);
  return pick.template operator()<static_cast<Activation>(act)>();
}

template <class Fn, class Pick>
Fn choose(Activation act, DType in, DType out, const Pick& pick) {
  return with_activation(act, [&]<Activation kAct>() -> Fn {
    return with_dtypes(in, out, [&]<DType kIn, DType kOut>() -> Fn {
      return pick.template operator()<kAct, kIn, kOut>();
    });
  });
}

UnaryFn pick_unary(Activation act, DType in, DType out) {
  return choose<UnaryFn>(act, in, out, []<Activation a, DType i, DType o>() {
    return &unary<a, i, o>;
  });
}
UnaryGradFn pick_unary_grad(Activation act, DType in, DType out) {
  return choose<UnaryGradFn>(
      act, in, out,
      []<Activation a, DType i, DType o>() { return &unary_grad<a, i, o>; });
}
GatedFn pick_gated(Activation act, DType in, DType out) {
  return choose<GatedFn>(act, in, out, []<Activation a, DType i, DType o>() {
    return &gated<a, i, o>;
  });
}
GatedGradFn pick_gated_grad(Activation act, DType in, DType out) {
  return choose<GatedGradFn>(
      act, in, out,
      []<Activation a, DType i, DType o>() { return &gated_grad<a, i, o>; });
}

}  // namespace

const ActivationKernels kRefActivationKernels = {
    "scalar", &pick_unary, &pick_unary_grad, &pick_gated, &pick_gated_grad};

}  // namespace assay
