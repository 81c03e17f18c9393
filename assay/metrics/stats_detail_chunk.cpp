#include "assay/metrics/stats_detail_chunk.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "assay/metrics/stats_masked.h"
#include "assay/metrics/stats_numbers.h"
#include "assay/metrics/stats_sums.h"
#include "assay/numerics/float_format.h"
#include "assay/numerics/ulp.h"

namespace assay {
namespace {

DetailParams params_of(DType judged, const DetailRequest& request) {
  DetailParams params;
  params.integer = is_exact(judged);
  if (!params.integer) {
    params.mantissa_bits = traits(judged).mantissa_bits;
    params.min_exponent = dissect(min_normal(judged)).leading;
    params.max_finite = max_finite(judged);
  }
  params.atol = request.bound.atol;
  params.rtol = request.bound.rtol;
  params.ulps = request.bound.ulps;
  params.small_threshold = request.small.threshold;
  params.small_bound = request.small.bound;
  return params;
}

// --- Kernels -------------------------------------------------------------

template <typename T>
bool run(DetailFn<T> kernel, const ChunkData& data, std::int64_t n,
         const DetailParams& params, DetailSums& sums) {
  return kernel(static_cast<const T*>(data.golden),
                static_cast<const T*>(data.target), n, params, sums);
}

bool run_native(Arithmetic arithmetic, const ChunkData& data, std::int64_t n,
                const DetailParams& params, DetailSums& sums) {
  const KernelTable& table = kernels();
  switch (arithmetic) {
    case Arithmetic::kBf16:
      return run(table.detail_bf16, data, n, params, sums);
    case Arithmetic::kF16:
      return run(table.detail_f16, data, n, params, sums);
    case Arithmetic::kF32:
      return run(table.detail_f32, data, n, params, sums);
    case Arithmetic::kF64:
      return run(table.detail_f64, data, n, params, sums);
    default:
      return false;
  }
}

// In fp64 and without the pairs that are not finite: where fp32 does not reach
// (golden zeros with an ulp of 2^-149) or some are not. `finite` becomes the
// number of pairs that `sums` covers.
bool run_wide(Arithmetic arithmetic, const ChunkData& data, std::int64_t n,
              const DetailParams& params, DetailSums& sums,
              std::int64_t& finite) {
  const MaskedNumbers numbers = masked_numbers(arithmetic, data, n);
  if (!kernels().detail_f64(numbers.x, numbers.y, n, params, sums))
    return false;
  if (params.small_threshold > 0) sums.small_count -= numbers.taken_out;
  finite = n - numbers.taken_out;
  return true;
}

bool run_kernel(Arithmetic arithmetic, const ChunkData& data, std::int64_t n,
                const DetailParams& params, DetailSums& sums,
                std::int64_t& finite) {
  finite = n;
  if (run_native(arithmetic, data, n, params, sums)) return true;
  return arithmetic != Arithmetic::kInt64 &&
         run_wide(arithmetic, data, n, params, sums, finite);
}

// --- Runs of 32 and 128 ----------------------------------------------------

// Sums of d^2 of a chunk's runs of 32; `count` of them, the last maybe short.
struct Runs {
  double squares[kChunk / kStep] = {};

  void raise_worst(std::int64_t begin, std::int64_t n, DetailPartial& out) {
    const std::int64_t count = (n + kStep - 1) / kStep;
    for (std::int64_t r = 0; r < count; ++r)
      out.run32.raise(squares[r], begin + r * kStep);
    for (std::int64_t r = 0; r < count; r += 4) {
      double sum = 0;
      for (std::int64_t k = r; k < std::min(r + 4, count); ++k)
        sum += squares[k];
      out.run128.raise(sum, begin + r * kStep);
    }
  }
};

void add_sums(std::int64_t chunk, std::int64_t finite, DetailSums& sums,
              DetailPartial& out) {
  out.finite += finite;
  out.ulp_sum += sum_of_lanes(sums.ulp_sum);
  out.large_rel_sum += sum_of_lanes(sums.large_rel_sum);
  out.large_squares += sum_of_lanes(sums.large_dd_sum);
  out.large_rel_max = std::max(out.large_rel_max, sums.large_rel_max);
  out.ulp.raise(sums.ulp_max, chunk);
  out.excess.raise(sums.worst_excess, chunk);
  out.rel_over_1e3 += sums.rel_over_1e3;
  out.rel_over_5e3 += sums.rel_over_5e3;
  out.over_bound += sums.over_bound;
  out.small_count += sums.small_count;
  out.small_errors += sums.small_errors;
  for (std::size_t b = 0; b < 64; ++b) {
    out.rel_histogram[b] += sums.rel_histogram[b];
    out.ulp_histogram[b] += sums.ulp_histogram[b];
  }
}

// --- Element by element ----------------------------------------------------

int floor_log2(double v) { return std::ilogb(v); }
int ceil_log2(double v) {
  int exponent;
  const double fraction = std::frexp(v, &exponent);  // [0.5, 1)
  return fraction == 0.5 ? exponent - 1 : exponent;
}

std::size_t bucket(double power) {
  return static_cast<std::size_t>(std::clamp(power, 0.0, 63.0));
}

void count_buckets(double a, double x, double ulps, DetailPartial& out) {
  const double r = a / x;
  const bool top = x == 0 || !std::isfinite(r);
  ++out.rel_histogram[top ? 63 : bucket(r > 0 ? floor_log2(r) + 64.0 : 0.0)];
  ++out.ulp_histogram[std::isinf(ulps)
                          ? 63
                          : bucket(ulps > 0 ? ceil_log2(ulps) : 0.0)];
}

void add_small_rule(const DetailRule& rule, double a, double x,
                    DetailPartial& out) {
  if (x < rule.small().threshold) {
    ++out.small_count;
    out.small_errors += a > rule.small().bound;
    return;
  }
  const double r = a / std::max(x, 1e-7);
  out.large_rel_sum += r;
  out.large_squares += a * a;
  out.large_rel_max = std::max(out.large_rel_max, r);
}

void add_pair(const DetailRule& rule, const Numbers& v, std::int64_t chunk,
              DetailPartial& out) {
  const double a = std::fabs(v.d), x = std::fabs(v.x);
  const double ulp = rule.ulp_of(v.x), ulps = a / ulp;
  const double bound = rule.bound_of(x, ulp);
  ++out.finite;
  out.ulp_sum += ulps;
  out.ulp.raise(ulps, chunk);
  out.over_bound += a > bound;
  if (a != 0) {
    out.excess.raise(a / bound, chunk);
    out.rel_over_1e3 += a >= 0.001 * x;
    out.rel_over_5e3 += a >= 0.005 * x;
    count_buckets(a, x, ulps, out);
  }
  if (rule.small().threshold > 0) add_small_rule(rule, a, x, out);
}

void add_elements(const PairPlan& plan, const DetailRule& rule,
                  std::int64_t chunk, const ChunkData& data, std::int64_t begin,
                  Runs& runs, DetailPartial& out) {
  visit_numbers(plan, data, [&](auto numbers) {
    for (std::int64_t i = begin; i < data.n; ++i) {
      const Numbers v = numbers(i);
      if (!std::isfinite(v.x) || !std::isfinite(v.y)) continue;
      add_pair(rule, v, chunk, out);
      runs.squares[i / kStep] += v.d * v.d;
    }
  });
}

}  // namespace

DetailRule::DetailRule(DType judged, const DetailRequest& request)
    : judged_(judged),
      request_(request),
      params_(params_of(judged, request)),
      smallest_(params_.integer ? 1 : min_normal(judged)),
      largest_(params_.max_finite) {}

void add_detail_chunk(const PairPlan& plan, const DetailRule& rule,
                      std::int64_t chunk, const ChunkData& data,
                      DetailPartial& out) {
  static thread_local DetailSums sums;
  Runs runs;
  std::int64_t done = data.n / kStep * kStep, finite = 0;
  if (done > 0 &&
      run_kernel(plan.arithmetic(), data, done, rule.params(), sums, finite)) {
    add_sums(chunk, finite, sums, out);
    std::copy_n(sums.block_dd, done / kStep, runs.squares);
  } else {
    done = 0;
  }
  add_elements(plan, rule, chunk, data, done, runs, out);
  runs.raise_worst(chunk * kChunk, data.n, out);
}

}  // namespace assay
