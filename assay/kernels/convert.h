// Kernels that change the precision of whole arrays: f32, bf16, f16; and that
// add them up in fp64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/kernels/family.h"
#include "assay/kernels/float_width.h"

namespace assay {

// Bit for bit the same on every instruction set: widening is exact, narrowing
// rounds once to nearest even (NaN: the quiet NaN, no sign, in 16 bits).
struct ConvertKernels {
  const char* isa;
  // n elements of the dtype with that float_width() as f32, and back. Plain
  // copies for f32.
  void (*widen[kFloatWidths])(const std::byte* in, std::int64_t n, float* out);
  void (*narrow[kFloatWidths])(const float* in, std::int64_t n, std::byte* out);
  // sums[i] += element i, of n, in fp64.
  void (*accumulate[kFloatWidths])(const std::byte* in, std::int64_t n,
                                   double* sums);
};

const ConvertKernels& convert_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const ConvertKernels* const> all_convert_kernels();

}  // namespace assay
