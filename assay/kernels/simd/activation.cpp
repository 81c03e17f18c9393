// Compiles the activations once for every instruction set and hands out their
// tables.
#include "assay/kernels/activation.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/activation.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#include "assay/kernels/simd/simd_activation.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/exp-inl.h"
#include "assay/kernels/simd/gelu-inl.h"
#include "assay/kernels/simd/activation-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {

template <class Act, class In, class Out>
void unary(const void* x, std::int64_t n, float scale, void* y) {
  if (scale == 1.0f) {
    map_runs<In, 1, Out, 1>(
        {x}, n, {y}, [](const auto& in, auto& out) HWY_ATTR {
          out[0] = {Act::value(in[0].a), Act::value(in[0].b)};
        });
    return;
  }
  const auto s = constant(scale);
  map_runs<In, 1, Out, 1>({x}, n, {y}, [&](const auto& in, auto& out) HWY_ATTR {
    out[0].a = hn::Mul(Act::value(in[0].a), s);
    out[0].b = hn::Mul(Act::value(in[0].b), s);
  });
}

// Adds up vectors; the padding of a run is zeros and adds nothing.
struct DotSum {
  FVec a, b;
  HWY_INLINE double total() const {
    return static_cast<double>(
        hn::GetLane(hn::SumOfLanes(FTag(), hn::Add(a, b))));
  }
};

template <class Act, class In, class Out>
void unary_grad(const void* dy, const void* x, std::int64_t n, float scale,
                void* dx, double* dot) {
  const auto s = constant(scale);
  DotSum sum{constant(0.0f), constant(0.0f)};
  const bool want_dot = dot != nullptr;
  map_runs<In, 2, Out, 1>({dy, x}, n, {dx}, [&](const auto& in, auto& out) {
    const auto a = Act::both(in[1].a), b = Act::both(in[1].b);
    out[0].a = hn::Mul(hn::Mul(in[0].a, a.slope), s);
    out[0].b = hn::Mul(hn::Mul(in[0].b, b.slope), s);
    if (want_dot) {
      sum.a = hn::MulAdd(in[0].a, a.value, sum.a);
      sum.b = hn::MulAdd(in[0].b, b.value, sum.b);
    }
  });
  if (want_dot) *dot += sum.total();
}

template <class Act, class In, class Out>
void gated(const void* gate, const void* linear, std::int64_t n,
           const ActivationParams& params, float scale, void* y) {
  const Act act(params);
  const auto s = constant(scale);
  map_runs<In, 2, Out, 1>({gate, linear}, n, {y},
                          [&](const auto& in, auto& out) {
                            out[0].a = hn::Mul(act.value(in[0].a, in[1].a), s);
                            out[0].b = hn::Mul(act.value(in[0].b, in[1].b), s);
                          });
}

struct GatedGrads {
  FVec gate, linear, product;
};

template <class Act>
HWY_INLINE GatedGrads gated_grads(const Act& act, FVec dy, FVec a, FVec b,
                                  FVec scale) {
  const Factors f = act.factors(a, b);
  const auto g = hn::Mul(dy, scale);
  return {hn::Mul(hn::Mul(f.gate.slope, f.linear.value), g),
          hn::Mul(hn::Mul(f.gate.value, f.linear.slope), g),
          hn::Mul(f.gate.value, f.linear.value)};
}

template <class Act, class In, class Out>
void gated_grad(const void* dy, const void* gate, const void* linear,
                std::int64_t n, const ActivationParams& params, float scale,
                void* dgate, void* dlinear, double* dot) {
  const Act act(params);
  const auto s = constant(scale);
  DotSum sum{constant(0.0f), constant(0.0f)};
  const bool want_dot = dot != nullptr;
  map_runs<In, 3, Out, 2>(
      {dy, gate, linear}, n, {dgate, dlinear}, [&](const auto& in, auto& out) {
        const auto a = gated_grads(act, in[0].a, in[1].a, in[2].a, s);
        const auto b = gated_grads(act, in[0].b, in[1].b, in[2].b, s);
        out[0] = {a.gate, b.gate};
        out[1] = {a.linear, b.linear};
        if (want_dot) {
          sum.a = hn::MulAdd(in[0].a, a.product, sum.a);
          sum.b = hn::MulAdd(in[0].b, b.product, sum.b);
        }
      });
  if (want_dot) *dot += sum.total();
}

// pick.template operator()<In, Out>() for a pair of dtypes.
template <class Pick>
auto with_dtypes(DType in, DType out, const Pick& pick) {
  if (in == DType::kBF16)
    return out == in ? pick.template operator()<StoredBf16, StoredBf16>()
                     : pick.template operator()<StoredBf16, StoredF32>();
  if (in == DType::kF16)
    return out == in ? pick.template operator()<StoredF16, StoredF16>()
                     : pick.template operator()<StoredF16, StoredF32>();
  return pick.template operator()<StoredF32, StoredF32>();
}

// pick.template operator()<Act>() for an activation of one kind.
template <class Pick>
auto with_unary(Activation act, const Pick& pick) {
  switch (act) {
    case Activation::kGelu:
      return pick.template operator()<Gelu>();
    case Activation::kSilu:
      return pick.template operator()<Silu>();
    case Activation::kQGelu:
      return pick.template operator()<QGelu>();
    case Activation::kSRelu:
      return pick.template operator()<SRelu>();
    default:
      return pick.template operator()<Relu>();
  }
}

template <class Pick>
auto with_gated(Activation act, const Pick& pick) {
  switch (act) {
    case Activation::kGlu:
      return pick.template operator()<Plain<Sigmoid>>();
    case Activation::kGeglu:
      return pick.template operator()<Plain<Gelu>>();
    case Activation::kSwiglu:
      return pick.template operator()<Plain<Silu>>();
    case Activation::kReglu:
      return pick.template operator()<Plain<Relu>>();
    case Activation::kQGeglu:
      return pick.template operator()<Plain<QGelu>>();
    case Activation::kSreglu:
      return pick.template operator()<Plain<SRelu>>();
    case Activation::kSituglu:
      return pick.template operator()<Situglu>();
    default:
      return pick.template operator()<ClampedSwiglu>();
  }
}

UnaryFn pick_unary(Activation act, DType in, DType out) {
  return with_unary(act, [&]<class Act>() {
    return with_dtypes(in, out, []<class In, class Out>() -> UnaryFn {
      return &unary<Act, In, Out>;
    });
  });
}

UnaryGradFn pick_unary_grad(Activation act, DType in, DType out) {
  return with_unary(act, [&]<class Act>() {
    return with_dtypes(in, out, []<class In, class Out>() -> UnaryGradFn {
      return &unary_grad<Act, In, Out>;
    });
  });
}

GatedFn pick_gated(Activation act, DType in, DType out) {
  return with_gated(act, [&]<class Act>() {
    return with_dtypes(in, out, []<class In, class Out>() -> GatedFn {
      return &gated<Act, In, Out>;
    });
  });
}

GatedGradFn pick_gated_grad(Activation act, DType in, DType out) {
  return with_gated(act, [&]<class Act>() {
    return with_dtypes(in, out, []<class In, class Out>() -> GatedGradFn {
      return &gated_grad<Act, In, Out>;
    });
  });
}

}  // namespace

const ActivationKernels* activation_table() {
  static constexpr ActivationKernels kTable = {ASSAY_ISA_NAME, &pick_unary,
                                               &pick_unary_grad, &pick_gated,
                                               &pick_gated_grad};
  return &kTable;
}

#else

const ActivationKernels* activation_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(activation_table);

std::vector<const ActivationKernels*> simd_activation_tables() {
  ASSAY_COLLECT_TABLES(ActivationKernels, activation_table);
}

}  // namespace assay
#endif
