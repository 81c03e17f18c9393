// Kernels of cross entropy over one row of logits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/kernels/family.h"
#include "assay/kernels/float_width.h"

namespace assay {

// Room that kept exponentials need beyond n: kernels write whole vectors.
inline constexpr std::int64_t kExpPadding = 64;

struct LogitStats {
  float max;      // of the row; -inf for none, unspecified where it holds NaN
  float sum_exp;  // sum of e^(x - max); NaN where the row holds NaN
  float sum;      // sum of x; 0 unless asked for
};

// Rows of logits of one dtype, values in fp32, sums in fp32 lanes. An
// exponential is within 1 ulp of that of the rounded difference x - max; sums
// are within n u32 of the sum of magnitudes of the plain fp64 loops, near
// sqrt(n) u32 in practice.
struct LossRowKernels {
  // `exps` null, or room for n + kExpPadding: e^(x - max), in an order that
  // scaled() of the same table undoes.
  LogitStats (*stats)(const std::byte* logits, std::int64_t n, bool with_sum,
                      float* exps);
  // out[i] = e^(logits[i] - max) * factor - offset. `out` may be `logits`.
  void (*gradient)(const std::byte* logits, std::int64_t n, float max,
                   float factor, float offset, std::byte* out);
  // The same from the exponentials: exps[i] * factor - offset.
  void (*scaled)(const float* exps, std::int64_t n, float factor, float offset,
                 std::byte* out);
};

struct LossKernels {
  const char* isa;
  LossRowKernels rows[kFloatWidths];
};

const LossKernels& loss_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const LossKernels* const> all_loss_kernels();

}  // namespace assay
