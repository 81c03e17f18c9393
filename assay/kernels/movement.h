// Kernels that move bytes without looking at them: copies and transposes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "assay/kernels/family.h"

namespace assay {

// out[c * out_stride + r] = in[r * in_stride + c] for r < rows, c < columns;
// strides in elements. `stream` writes past the caches where the lines of
// `out` are aligned: for results larger than they are. No alignment needed.
using TransposeFn = void (*)(const std::byte* in, std::int64_t in_stride,
                             std::int64_t rows, std::int64_t columns,
                             bool stream, std::byte* out,
                             std::int64_t out_stride);

// Bit for bit the same on every instruction set.
struct MovementKernels {
  const char* isa;
  // Copies `bytes` bytes of ranges that do not overlap; `stream` as above.
  void (*copy)(const std::byte* in, std::int64_t bytes, bool stream,
               std::byte* out);
  TransposeFn transpose8, transpose16, transpose32, transpose64;
};

// From how many bytes of result a caller asks for `stream`: the last-level
// cache would have evicted the first of them before anyone reads them.
inline constexpr std::int64_t kStreamBytes = std::int64_t{4} << 20;

const MovementKernels& movement_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const MovementKernels* const> all_movement_kernels();

}  // namespace assay
