// Copying many equally long runs of bytes: what every operator that only
// rearranges rows is made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/kernels/movement.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {

// About what one core works through while it is worth waking another.
inline constexpr std::int64_t kBlockBytes = std::int64_t{1} << 18;

// Rows of so many bytes that a block of for_row_blocks holds.
constexpr std::int64_t rows_of_bytes(std::int64_t bytes) {
  return std::max<std::int64_t>(1,
                                kBlockBytes / std::max<std::int64_t>(1, bytes));
}

// out run i = in run source(i), all zero bytes where source(i) < 0; runs of
// `bytes`, back to back. In parallel; `total_bytes` of the whole result says
// whether it is worth writing past the caches.
template <typename Source>
void copy_runs(Device device, const std::byte* in, std::int64_t runs,
               std::int64_t bytes, Source source, std::byte* out) {
  const MovementKernels& kernels = movement_kernels(device);
  const bool stream = runs * bytes >= kStreamBytes;
  for_row_blocks(runs, rows_of_bytes(bytes),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const std::int64_t from = source(i);
                     std::byte* to = out + i * bytes;
                     if (from < 0)
                       std::fill(to, to + bytes, std::byte{0});
                     else
                       kernels.copy(in + from * bytes, bytes, stream, to);
                   }
                 });
}

// Bytes of one row of `columns` elements; an Error where packed elements do
// not fill whole bytes, or a size leaves 63 bits.
std::int64_t row_bytes(std::string_view op, std::string_view argument,
                       DType dtype, std::int64_t columns);

}  // namespace assay::te
