// Kernel of residual connections: scaling, bias, dropout's mask and the
// residual in one pass over runs of stored elements.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"

namespace assay {

// Contiguous arrays of n elements of `dtype`: float32, bfloat16 or float16. No
// alignment needed; `out` may be x or residual.
struct ResidualRun {
  DType dtype = DType::kF32;
  const void* x = nullptr;
  const void* bias = nullptr;          // null: zero
  const std::uint8_t* mask = nullptr;  // bit i % 8 of byte i / 8 is element i,
                                       // 1 is kept; null: all
  float scale = 1;
  const void* residual = nullptr;  // null: zero
  std::int64_t n = 0;
  void* out = nullptr;
};

// out = residual + (kept ? scale (x + bias) : 0), overwritten. In fp32, every
// operation rounded, then rounded once to `dtype`. What a mask drops does not
// show, NaN included. The vector tables agree bit by bit; the plain loops work
// in fp64 and are within 3 u32 (|residual| + |scale| (|x| + |bias|)).
struct ResidualKernels {
  const char* isa;
  void (*add)(const ResidualRun& run);
};

const ResidualKernels& residual_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const ResidualKernels* const> all_residual_kernels();

}  // namespace assay
