// Kernels of mixture-of-experts layers: merging rows, and scoring experts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/kernels/family.h"
#include "assay/kernels/float_width.h"

namespace assay {

// Rows of elements of one dtype. Sums in fp32, fused multiply-adds, one
// rounding; within (count + 2) u32 sum|w||x| of the plain fp64 loops, before
// that rounding.
struct MoeRowKernels {
  // out[h] = sum over s < count of weights[s] * rows[s][h], s ascending; 0 for
  // count 0. `weights` null: all 1. `stream`: see MovementKernels.
  void (*combine)(const std::byte* const* rows, const float* weights,
                  std::int64_t count, std::int64_t n, bool stream,
                  std::byte* out);
  // out[h] = weight * in[h]
  void (*scale)(const std::byte* in, float weight, std::int64_t n, bool stream,
                std::byte* out);
  // sum of a[h] * b[h], in lanes.
  float (*dot)(const std::byte* a, const std::byte* b, std::int64_t n);
};

// Room a score buffer needs beyond its n elements: kernels work in whole
// vectors and may write there.
inline constexpr std::int64_t kScorePadding = 64;

struct MoeKernels {
  const char* isa;
  MoeRowKernels rows[kFloatWidths];
  // In place on n scores (plus kScorePadding of room), within 4 ulp of the
  // plain fp64 loops; softmax within 4 + max - x, for x - max is rounded. NaN
  // anywhere makes a softmax all NaN. softplus_root(x) = sqrt(log(1 + e^x)),
  // its e^x with the precision of a subnormal below x = -87.
  void (*softmax)(float* x, std::int64_t n);
  void (*sigmoid)(float* x, std::int64_t n);
  void (*softplus_root)(float* x, std::int64_t n);
  // indices[0 .. k) of the k <= n largest, descending, of equal ones the
  // lowest index first; -0 equals +0, NaN is below -inf. `keys`: scratch for n
  // + kScorePadding. The same on every instruction set.
  void (*top_k)(const float* x, std::int64_t n, std::int64_t k,
                std::int32_t* keys, std::int32_t* indices);
};

const MoeKernels& moe_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const MoeKernels* const> all_moe_kernels();

}  // namespace assay
