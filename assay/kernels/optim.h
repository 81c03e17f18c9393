// Kernels of optimizers and of norms over many tensors. Everything in fp32.
#pragma once

#include <cstdint>
#include <span>

#include "assay/kernels/family.h"

namespace assay {

// One step of Adam; the complements are rounded once from fp64.
struct AdamStep {
  float lr, eps, weight_decay;
  float beta1, beta1_complement;  // 1 - beta1
  float beta2, beta2_complement;
  float correction1, correction2;  // 1 - beta^step, or 1
  bool decoupled;                  // AdamW; else decay joins the gradient
};

struct SgdStep {
  float lr, momentum, dampening_complement, weight_decay;
  bool nesterov, first_run, decay_after_momentum;
};

// Element-wise ones are within 8 u32 of the plain fp64 loops relative to the
// largest term that an element adds. No alignment needed; arrays of one call
// do not overlap unless they are the same.
struct OptimKernels {
  const char* isa;
  // p, m, v updated in place.
  void (*adam)(const float* g, float* p, float* m, float* v, std::int64_t n,
               const AdamStep& step);
  // p and the momentum buffer updated in place; `buffer` is not touched where
  // momentum is 0.
  void (*sgd)(const float* g, float* p, float* buffer, std::int64_t n,
              const SgdStep& step);
  // out = in * scale in fp32; true where every input is finite.
  bool (*scale)(const float* in, float scale, std::int64_t n, float* out);
  // Sum of squares of fp32(x * scale), squares and sum in fp64 lanes: nothing
  // finite overflows. Within n u64 of the exact sum.
  double (*sum_squares)(const float* x, float scale, std::int64_t n);
  // Greatest |x|, NaN ignored; 0 for none. Exact.
  float (*absmax)(const float* x, std::int64_t n);
  // fp32 split into a bf16 rounded to nearest, ties up, and the 16 low bits
  // as a signed remainder; join is the exact inverse. (NVTE's parameter
  // remainders.) Exact on every instruction set.
  void (*join)(const std::uint16_t* high, const std::int16_t* low,
               std::int64_t n, float* out);
  void (*split)(const float* in, std::int64_t n, std::uint16_t* high,
                std::int16_t* low);
};

const OptimKernels& optim_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const OptimKernels* const> all_optim_kernels();

}  // namespace assay
