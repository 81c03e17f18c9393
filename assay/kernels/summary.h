// Kernel of a tensor's own statistics: extremes, sum and sum of squares of a
// run of elements, for what a capture keeps of a tensor.
#pragma once

#include <cstdint>
#include <span>

#include "assay/core/device.h"
#include "assay/core/dtype.h"

namespace assay {

inline constexpr int kSummaryLanes = 16;
// Elements of one call at most.
inline constexpr std::int64_t kSummaryChunk = 8192;

// Of the finite elements of one run. Filled, not added to.
struct SummarySums {
  // Element i of the run is added to lane i mod 16, in rising order, in fp64;
  // squares by fused multiply-add.
  alignas(64) double sum[kSummaryLanes];
  alignas(64) double squares[kSummaryLanes];
  double min = 0, max = 0;  // +inf and -inf where no element is finite
  std::int64_t zeros = 0;   // of either sign
  std::int64_t nan = 0, positive_inf = 0, negative_inf = 0;
};

// Contiguous elements, 0 < n <= kSummaryChunk, no alignment needed: float64,
// float32, bfloat16 or float16. Every table gives the same bits. A minimum or
// maximum of zero is +0.
struct SummaryKernels {
  const char* isa;
  void (*summarise)(DType dtype, const void* x, std::int64_t n,
                    SummarySums& out);
};

const SummaryKernels& summary_kernels(Device device);
// Best first, the plain loops ("scalar") last.
std::span<const SummaryKernels* const> all_summary_kernels();

}  // namespace assay
