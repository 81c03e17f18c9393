#include "assay/metrics/error_stats.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/metrics/stats_blocks.h"
#include "assay/metrics/stats_chunk.h"
#include "assay/metrics/stats_numbers.h"
#include "assay/metrics/stats_partial.h"
#include "assay/metrics/stats_plan.h"

namespace assay {
namespace {

StatsPartial sum_chunks(const PairPlan& plan, std::int64_t begin,
                        std::int64_t end) {
  StatsPartial out;
  ChunkBuffers& buffers = thread_chunk_buffers();
  for (std::int64_t chunk = begin; chunk < end; ++chunk)
    add_chunk(plan, chunk, plan.load(chunk, buffers), out);
  return out;
}

bool finite(const Numbers& v) {
  return std::isfinite(v.x) && std::isfinite(v.y);
}

struct Place {
  double value = 0;
  std::int64_t index = -1;
  Numbers at{};
};

// Where |d| is greatest in the chunk, in fp64; the first of equals.
Place greatest_difference(const PairPlan& plan, std::int64_t chunk) {
  Place best;
  const ChunkData data = plan.load(chunk, thread_chunk_buffers());
  visit_numbers(plan, data, [&](auto numbers) {
    for (std::int64_t i = 0; i < data.n; ++i) {
      const Numbers v = numbers(i);
      const double a = std::fabs(v.d);
      if (a > best.value && finite(v)) best = {a, chunk * kChunk + i, v};
    }
  });
  return best;
}

// Where |d| / |golden| is greatest. The product with a little less than the
// best quotient spares nearly all divisions.
Place greatest_quotient(const PairPlan& plan, std::int64_t chunk) {
  constexpr double kBelow = 1 - 0x1p-50;
  Place best;
  const ChunkData data = plan.load(chunk, thread_chunk_buffers());
  visit_numbers(plan, data, [&](auto numbers) {
    for (std::int64_t i = 0; i < data.n; ++i) {
      const Numbers v = numbers(i);
      const double a = std::fabs(v.d), x = std::fabs(v.x);
      if (!(a > best.value * x * kBelow) || !finite(v)) continue;
      if (a / x > best.value) best = {a / x, chunk * kChunk + i, v};
    }
  });
  return best;
}

void place_maxima(const PairPlan& plan, const StatsPartial& total,
                  ErrorStats& out) {
  if (total.abs.chunk >= 0) {
    const Place place = greatest_difference(plan, total.abs.chunk);
    out.max_abs = place.value;
    out.max_abs_index = place.index;
    out.golden_at_max_abs = place.at.x;
    out.target_at_max_abs = place.at.y;
  }
  if (total.rel.chunk >= 0) {
    const Place place = greatest_quotient(plan, total.rel.chunk);
    out.max_rel = place.value;
    out.max_rel_index = place.index;
  }
}

}  // namespace

ErrorStats compute_stats(const TensorView& golden, const TensorView& target) {
  const PairPlan plan(golden, target);
  const StatsPartial total = reduce_blocks<StatsPartial>(
      plan.chunks(), [&](std::int64_t begin, std::int64_t end) {
        return sum_chunks(plan, begin, end);
      });
  ErrorStats out = finish_stats(total, plan.count());
  out.bitwise_equal = out.bitwise_equal && plan.same_dtype();
  out.judged_dtype = plan.judged();
  out.golden_rounded = plan.golden_rounded();
  place_maxima(plan, total, out);
  if (is_exact(golden.dtype) && is_exact(target.dtype))
    out.max_abs_int = plan.arithmetic() == Arithmetic::kInt64
                          ? total.max_abs_int
                          : static_cast<std::uint64_t>(out.max_abs);
  return out;
}

}  // namespace assay
