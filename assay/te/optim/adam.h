// Adam and AdamW over lists of tensors, in place.
//
// Sources: Kingma and Ba, arXiv:1412.6980; Loshchilov and Hutter,
// arXiv:1711.05101; NVTE multi_tensor_adam and its variants. In fp32, in this
// order, every operation rounded (multiply-adds fused):
//   L2:        g = g + wd p
//   both:      m = b1 m + (1 - b1) g        v = b2 v + ((1 - b2) g) g
//              u = (m / c1) / (sqrt(v / c2) + eps)
//   decoupled: u = u + wd p
//   both:      p = p - lr u
// with c = 1 - beta^step, or 1 without bias correction. p is the master copy
// where there is one. 1 - beta and c are formed in fp64 from the betas and
// rounded once; NVTE forms them from fp32 betas, which makes its 1 - 0.999f
// 1.3e-5 too small in relation (m / c1 and v / c2 agree to 1e-7 all the same).
//
// Every list has the same length; tensors of one index the same shape. f32,
// bf16, f16 for each list unless said otherwise: widened, updated, rounded to
// nearest even. Strided tensors are updated where they are. NaN and infinities
// of a gradient go into p, m and v: only the capturable form skips a step.
// Results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/tensor.h"

namespace assay::te {

enum class AdamMode : std::uint8_t { kL2 = 0, kDecoupled = 1 };  // NVTE's codes

struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  AdamMode mode = AdamMode::kDecoupled;
  bool bias_correction = true;
};

struct AdamTensors {
  std::span<Tensor> grads;  // changed by the capturable form only
  std::span<Tensor> params;
  std::span<Tensor> exp_avg, exp_avg_sq;
  std::span<Tensor> master;  // empty, or the values that `params` are rounded
                             // copies of; params are then written only
};

// `step` counts from 1.
void multi_tensor_adam(const AdamTensors& tensors, const AdamOptions& options,
                       std::int64_t step);

// What a captured graph keeps in tensors of one element. Gradients are
// multiplied by inv_scale and stored back; lr replaces options.lr. Does
// nothing where found_inf is not 0.
struct AdamScalars {
  const Tensor* lr;         // f32
  const Tensor* step;       // i32, from 1
  const Tensor* inv_scale;  // f32
  const Tensor* found_inf;  // f32 or i32
};
void multi_tensor_adam_capturable(const AdamTensors& tensors,
                                  const AdamOptions& options,
                                  const AdamScalars& scalars);

// params bf16, remainders i16 of the same shape: together fp32 masters. The
// bf16 is the master rounded to nearest (ties up), the remainder its low 16
// bits as a signed number. `tensors.master` must be empty.
void multi_tensor_adam_param_remainder(const AdamTensors& tensors,
                                       std::span<Tensor> remainders,
                                       const AdamOptions& options,
                                       std::int64_t step);

// params e4m3fn or e5m2 codes of master * scale, saturating; scales, amaxes,
// scale_invs f32 [1] each. amax becomes max(amax, max |p|), NaN ignored;
// scale_inv becomes 1 / scale. `tensors.master` is needed.
void multi_tensor_adam_fp8(const AdamTensors& tensors,
                           std::span<const Tensor> scales,
                           std::span<Tensor> amaxes,
                           std::span<Tensor> scale_invs,
                           const AdamOptions& options, std::int64_t step);

// Optimizer states kept in f16 or e4m3fn under a scale (NVTE FusedAdam):
// scale = absmax / r with r = 32752 (half of f16's largest) or 448, codes =
// round(x * (1 / scale)); absmax 0 gives scale 0 and codes 0. NaN ignored in
// absmax. scale f32 [1].
Tensor scaled_state_values(const Tensor& codes, const Tensor& scale);  // f32
void store_scaled_state(const Tensor& values, Tensor& codes, Tensor& scale);

}  // namespace assay::te
