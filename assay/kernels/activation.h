// Kernels of the activations: gelu, silu, relu and their gated forms, forward
// and backward, over runs of stored elements.
//
// Formulas: NVTE (docs/numerics.md, operators), computed in fp32 from the
// stored input and rounded once to the output dtype. gelu is the tanh form; 0.5
// + 0.5 tanh u is evaluated as the logistic function of 2u, the same number
// without the cancellation for negative u.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"

namespace assay {

enum class Activation : std::uint8_t {
  kGelu,
  kSilu,
  kRelu,
  kQGelu,  // x logistic(1.702 x)
  kSRelu,  // squared relu
  // Gated: act(a) * b of the halves a, b of a row.
  kGlu,  // logistic(a) * b
  kGeglu,
  kSwiglu,
  kReglu,
  kQGeglu,
  kSreglu,
  kClampedSwiglu,  // gpt-oss
  kSituglu,
};
inline constexpr int kActivationCount = 13;
constexpr bool is_gated(Activation act) { return act >= Activation::kGlu; }

// Of kClampedSwiglu: gate = min(a, limit), linear = clamp(b, -limit, limit) +
// linear_offset, out = gate logistic(alpha gate) linear. Of kSituglu:
// beta1 tanh(a / beta1) logistic(a) beta2 tanh(b / beta2).
struct ActivationParams {
  float limit = 7.0f;
  float alpha = 1.702f;
  float linear_offset = 1.0f;
  float beta1 = 4.0f;
  float beta2 = 25.0f;
};

// Every function takes n >= 0 contiguous elements without alignment, gives
// each element the same bits wherever it stands in the run, and overwrites its
// outputs. `scale` multiplies the activation (1: unscaled).

// y = scale * act(x)
using UnaryFn = void (*)(const void* x, std::int64_t n, float scale, void* y);
// dx = scale * dy * act'(x); where `dot` is not null, *dot += sum of
// dy * act(x).
using UnaryGradFn = void (*)(const void* dy, const void* x, std::int64_t n,
                             float scale, void* dx, double* dot);
// y = scale * act(gate) * linear
using GatedFn = void (*)(const void* gate, const void* linear, std::int64_t n,
                         const ActivationParams& params, float scale, void* y);
using GatedGradFn = void (*)(const void* dy, const void* gate,
                             const void* linear, std::int64_t n,
                             const ActivationParams& params, float scale,
                             void* dgate, void* dlinear, double* dot);

// `in` is float32, bfloat16 or float16, the dtype of every input; `out` is
// `in` or float32, the dtype of every output but `dot`.
//
// The vector tables agree bit by bit but in `dot`, whose order of summation is
// that of their lanes: within n u of the sum of magnitudes. Against the fp64
// ones, before the rounding to `out` and with u = 2^-24: the forward is within
// 8 u of its value for a gate input from -1 up and 256 u below (there it is
// e^v, which inherits the rounding of v), gated ones 1.5 times that; the
// backward within twice of the terms of its sum; an absolute 2^-120 (times the
// other factors) always.
struct ActivationKernels {
  const char* isa;
  UnaryFn (*unary)(Activation act, DType in, DType out);
  UnaryGradFn (*unary_grad)(Activation act, DType in, DType out);
  GatedFn (*gated)(Activation act, DType in, DType out);
  GatedGradFn (*gated_grad)(Activation act, DType in, DType out);
};

const ActivationKernels& activation_kernels(Device device);
std::span<const ActivationKernels* const> all_activation_kernels();

}  // namespace assay
