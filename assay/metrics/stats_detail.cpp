// compute_detail: tier 2 over all chunks, then the exact figures of the places
// that the chunks named.
#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "assay/metrics/error_stats.h"
#include "assay/metrics/stats_blocks.h"
#include "assay/metrics/stats_detail_chunk.h"
#include "assay/metrics/stats_numbers.h"

namespace assay {
namespace {

DetailPartial sum_chunks(const PairPlan& plan, const DetailRule& rule,
                         std::int64_t begin, std::int64_t end) {
  DetailPartial out;
  ChunkBuffers& buffers = thread_chunk_buffers();
  for (std::int64_t chunk = begin; chunk < end; ++chunk)
    add_detail_chunk(plan, rule, chunk, plan.load(chunk, buffers), out);
  return out;
}

// Calls visit(index, numbers) for the finite pairs of the chunk that holds
// `begin`, from there to `end` or to the end of the chunk.
template <typename Visit>
void visit_pairs(const PairPlan& plan, std::int64_t begin, std::int64_t end,
                 Visit visit) {
  const std::int64_t first = begin / kChunk * kChunk;
  const ChunkData data = plan.load(begin / kChunk, thread_chunk_buffers());
  const std::int64_t past = std::min(end - first, data.n);
  visit_numbers(plan, data, [&](auto numbers) {
    for (std::int64_t i = begin - first; i < past; ++i) {
      const Numbers v = numbers(i);
      if (std::isfinite(v.x) && std::isfinite(v.y)) visit(first + i, v);
    }
  });
}
template <typename Visit>
void visit_chunk(const PairPlan& plan, std::int64_t chunk, Visit visit) {
  visit_pairs(plan, chunk * kChunk, (chunk + 1) * kChunk, visit);
}

// The greatest quotient of two numbers and its place, the first of equals.
struct Best {
  double value = 0;
  std::int64_t index = -1;
};

// ratio(numbers) gives numerator and denominator. Divides only where the
// product with a little less than the best quotient says it may be beaten.
template <typename Ratio>
Best greatest(const PairPlan& plan, std::int64_t chunk, Ratio ratio) {
  Best best;
  if (chunk < 0) return best;
  visit_chunk(plan, chunk, [&](std::int64_t i, const Numbers& v) {
    const auto [above, below] = ratio(v);
    if (!(above > best.value * below * (1 - 0x1p-50))) return;
    const double q = above / below;
    if (q > best.value) best = {q, i};
  });
  return best;
}

void place_peaks(const PairPlan& plan, const DetailRule& rule,
                 const DetailPartial& total, DetailStats& out) {
  const Best ulp = greatest(plan, total.ulp.chunk, [rule](const Numbers& v) {
    return std::pair(std::fabs(v.d), rule.ulp_of(v.x));
  });
  const Best excess =
      greatest(plan, total.excess.chunk, [rule](const Numbers& v) {
        return std::pair(std::fabs(v.d),
                         rule.bound_of(std::fabs(v.x), rule.ulp_of(v.x)));
      });
  out.ulp_max = ulp.value;
  out.ulp_max_index = ulp.index;
  out.worst_excess = excess.value;
  out.worst_excess_index = excess.index;
}

// The exact figures of the worst run. Runs do not cross chunks.
WorstBlock finish_run(const PairPlan& plan, const WorstRun& run,
                      std::int64_t length) {
  WorstBlock out;
  if (run.begin < 0) return out;
  double squares = 0, golden = 0;
  std::int64_t finite = 0;
  visit_pairs(plan, run.begin, run.begin + length,
              [&](std::int64_t, const Numbers& v) {
                ++finite;
                squares += v.d * v.d;
                golden += v.x * v.x;
              });
  out.begin = run.begin;
  out.rmse = std::sqrt(squares / static_cast<double>(finite));
  out.golden_rms = std::sqrt(golden / static_cast<double>(finite));
  return out;
}

void finish_shares(const DetailPartial& total, DetailStats& out) {
  const auto finite = static_cast<double>(total.finite);
  if (total.finite == 0) return;
  out.ulp_mean = total.ulp_sum / finite;
  out.share_rel_over_1e3 = static_cast<double>(total.rel_over_1e3) / finite;
  out.share_rel_over_5e3 = static_cast<double>(total.rel_over_5e3) / finite;
}

void finish_small_rule(const DetailPartial& total, DetailStats& out) {
  out.small_count = total.small_count;
  out.small_errors = total.small_errors;
  out.large_max_rel = total.large_rel_max;
  const std::int64_t large = total.finite - total.small_count;
  if (large == 0) return;
  out.large_mean_rel = total.large_rel_sum / static_cast<double>(large);
  out.large_rmse = std::sqrt(total.large_squares / static_cast<double>(large));
}

}  // namespace

void compute_detail(const TensorView& golden, const TensorView& target,
                    const DetailRequest& request, ErrorStats& stats) {
  const PairPlan plan(golden, target);
  const DetailRule rule(plan.judged(), request);
  const DetailPartial total = reduce_blocks<DetailPartial>(
      plan.chunks(), [&](std::int64_t begin, std::int64_t end) {
        return sum_chunks(plan, rule, begin, end);
      });
  auto out = std::make_unique<DetailStats>();
  finish_shares(total, *out);
  finish_small_rule(total, *out);
  out->over_bound = total.over_bound;
  out->rel_histogram = total.rel_histogram;
  out->ulp_histogram = total.ulp_histogram;
  out->block32 = finish_run(plan, total.run32, 32);
  out->block128 = finish_run(plan, total.run128, 128);
  place_peaks(plan, rule, total, *out);
  stats.detail = std::move(out);
}

}  // namespace assay
