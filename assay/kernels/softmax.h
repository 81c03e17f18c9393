// Kernels of softmax over one row, forward and backward.
//
// Formulas: NVTE (docs/numerics.md, softmax). With l = scale x in fp32 and m
// its maximum, y = e^(l - m) / sum(e^(l - m)), and dx = scale y (dy - sum(dy
// y)).
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"
#include "assay/numerics/internal_precision.h"

namespace assay {

// The logit of a masked column. A row whose maximum is exactly this is taken
// for fully masked: zeros (NVTE's scaled masked kernel).
inline constexpr float kMaskedLogit = -10000.0f;

struct SoftmaxRow {
  std::int64_t columns = 0;
  // Columns that take part; the others are written as zeros and not read.
  std::int64_t visible = 0;
  float scale = 1;
  const std::uint8_t* mask = nullptr;  // [columns], not 0: masked; or null
  // One more term e^(extra_logit - m) in the denominator, and in m.
  bool has_extra = false;
  float extra_logit = 0;
};

// Fills y[columns]; returns the probability of the extra term (0 without).
// A NaN, or an infinity that wins, makes the visible row NaN.
using SoftmaxForwardFn = float (*)(const SoftmaxRow& row, const void* x,
                                   void* y);
// Fills dx[columns] from y as stored; returns sum(dy y).
using SoftmaxBackwardFn = double (*)(const SoftmaxRow& row, const void* dy,
                                     const void* y, void* dx);

// x, y, dy, dx are of `dtype`: float32, bfloat16 or float16. The vector tables
// agree bit by bit; against the fp64 loops, before the rounding to `dtype`
// (u = 2^-24, n columns): y within (8 + |l - m|) u + sqrt(n) u of its value,
// dx within 16 u + sqrt(n) u of its terms.
struct SoftmaxKernels {
  const char* isa;
  SoftmaxForwardFn (*forward)(DType dtype);
  SoftmaxBackwardFn (*backward)(DType dtype);
};

const SoftmaxKernels& softmax_kernels(Device device);
std::span<const SoftmaxKernels* const> all_softmax_kernels();
// The plain loops with their sums formed in `precision`; kF64: the reference.
const SoftmaxKernels& plain_softmax_kernels(InternalPrecision precision);

}  // namespace assay
