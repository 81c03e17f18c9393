#include "assay/metrics/tensor_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/kernels/summary.h"
#include "assay/numerics/element.h"
#include "assay/numerics/float_format.h"

namespace assay {
namespace {

// Chunks that one job adds up; jobs are merged in order.
constexpr std::int64_t kChunksOfJob = 64;
// fp64, alone or in pairs.
constexpr std::int64_t kMaxComponentBytes = 8;
static_assert(kSummaryChunk % 2 == 0);

struct Partial {
  double sum = 0, squares = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::int64_t zeros = 0, nan = 0, positive_inf = 0, negative_inf = 0;
  std::int64_t saturated = 0;

  void add(const SummarySums& chunk) {
    for (int lane = 0; lane < kSummaryLanes; ++lane) {
      sum += chunk.sum[lane];
      squares += chunk.squares[lane];
    }
    min = std::min(min, chunk.min);
    max = std::max(max, chunk.max);
    zeros += chunk.zeros;
    nan += chunk.nan;
    positive_inf += chunk.positive_inf;
    negative_inf += chunk.negative_inf;
  }
  void add(const Partial& other) {
    sum += other.sum;
    squares += other.squares;
    min = std::min(min, other.min);
    max = std::max(max, other.max);
    zeros += other.zeros;
    nan += other.nan;
    positive_inf += other.positive_inf;
    negative_inf += other.negative_inf;
    saturated += other.saturated;
  }
};

bool has_kernel(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 ||
         dtype == DType::kBF16 || dtype == DType::kF16;
}

std::int64_t count_magnitude(const double* values, std::int64_t n,
                             double magnitude) {
  return std::count_if(values, values + n,
                       [&](double v) { return std::abs(v) == magnitude; });
}

// Components [begin, begin + n) of a contiguous tensor, `data` its elements.
void add_components(const TensorView& tensor, const std::byte* data,
                    std::int64_t begin, std::int64_t n, Partial& total) {
  SummarySums sums;
  const DType dtype = component(tensor.dtype);
  const SummaryKernels& kernels = summary_kernels(Device::kCpu);
  if (has_kernel(dtype)) {
    const std::int64_t item = traits(dtype).bits / 8;
    kernels.summarise(dtype, data + begin * item, n, sums);
  } else {
    double values[kSummaryChunk];
    load_as_doubles(dtype, data, begin, n, values);
    kernels.summarise(DType::kF64, values, n, sums);
    // Counted only where the extremes say that there is something to count.
    if (saturates(dtype)) {
      const double largest = max_finite(dtype);
      if (sums.max == largest || sums.min == -largest)
        total.saturated += count_magnitude(values, n, largest);
    }
  }
  total.add(sums);
}

// The same of a tensor of any strides. A strided one is brought together a
// chunk at a time: a copy of the whole would cost more than the statistics.
void add_chunk(const TensorView& tensor, bool strided, std::int64_t begin,
               std::int64_t n, Partial& total) {
  if (!strided) return add_components(tensor, tensor.data, begin, n, total);
  const std::int64_t parts = is_complex(tensor.dtype) ? 2 : 1;
  alignas(64) std::byte chunk[kSummaryChunk * kMaxComponentBytes];
  gather(tensor, begin / parts, n / parts, chunk);
  add_components(tensor, chunk, 0, n, total);
}

TensorSummary finished(const Partial& total, std::int64_t count) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  TensorSummary s;
  s.count = count;
  s.nan = total.nan;
  s.positive_inf = total.positive_inf;
  s.negative_inf = total.negative_inf;
  s.finite = count - s.nan - s.positive_inf - s.negative_inf;
  s.zeros = total.zeros;
  s.saturated = total.saturated;
  s.min = s.finite > 0 ? total.min : kNan;
  s.max = s.finite > 0 ? total.max : kNan;
  s.mean = s.finite > 0 ? total.sum / static_cast<double>(s.finite) : kNan;
  s.norm = std::sqrt(total.squares);
  return s;
}

}  // namespace

TensorSummary summarise(const TensorView& tensor, bool parallel) {
  const bool strided = !tensor.is_contiguous();
  const std::int64_t count =
      tensor.numel() * (is_complex(tensor.dtype) ? 2 : 1);
  const std::int64_t chunks = (count + kSummaryChunk - 1) / kSummaryChunk;
  const std::int64_t jobs = (chunks + kChunksOfJob - 1) / kChunksOfJob;
  std::vector<Partial> parts(static_cast<std::size_t>(jobs));
  const auto job = [&](std::int64_t j) {
    const std::int64_t end = std::min(chunks, (j + 1) * kChunksOfJob);
    for (std::int64_t c = j * kChunksOfJob; c < end; ++c) {
      const std::int64_t begin = c * kSummaryChunk;
      add_chunk(tensor, strided, begin, std::min(kSummaryChunk, count - begin),
                parts[static_cast<std::size_t>(j)]);
    }
  };
  if (parallel && jobs > 1) {
    parallel_for(jobs, job);
  } else {
    for (std::int64_t j = 0; j < jobs; ++j) job(j);
  }
  Partial total;
  for (const Partial& part : parts) total.add(part);
  return finished(total, count);
}

}  // namespace assay
