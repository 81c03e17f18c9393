#include "assay/metrics/stats_chunk.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "assay/kernels/kernels.h"
#include "assay/metrics/stats_numbers.h"

namespace assay {
namespace {

// --- Kernels -----------------------------------------------------------

template <typename T>
ChunkState run(PairFn<T> kernel, const ChunkData& data, std::int64_t n,
               ChunkSums& sums) {
  return kernel(static_cast<const T*>(data.golden),
                static_cast<const T*>(data.target), n, sums);
}

ChunkState run_kernel(Arithmetic arithmetic, const ChunkData& data,
                      std::int64_t n, ChunkSums& sums) {
  const KernelTable& table = kernels();
  switch (arithmetic) {
    case Arithmetic::kBf16:
      return run(table.pair_bf16, data, n, sums);
    case Arithmetic::kF16:
      return run(table.pair_f16, data, n, sums);
    case Arithmetic::kF32:
      return run(table.pair_f32, data, n, sums);
    case Arithmetic::kF64:
      return run(table.pair_f64, data, n, sums);
    default:
      return ChunkState::kUntrusted;
  }
}

// Halves, then quarters, ...: a fixed order that vectorises by itself.
double sum_of_lanes(double (&lane)[kLanes]) {
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int k = 0; k < half; ++k) lane[k] += lane[k + half];
  }
  return lane[0];
}

void extend(PartialSide& side, double min, double max) {
  side.min = std::min(side.min, min);
  side.max = std::max(side.max, max);
}

void add_sums(std::int64_t chunk, std::int64_t n, ChunkSums& sums,
              StatsPartial& out) {
  for (std::size_t s = 0; s < kSumCount; ++s)
    out.sum[s] += sum_of_lanes(sums.lane[s]);
  extend(out.golden, sums.x_min, sums.x_max);
  extend(out.target, sums.y_min, sums.y_max);
  out.finite += n;
  out.golden_zeros += sums.golden_zeros;
  out.mismatches += sums.mismatches;
  out.zero_sign_flips += sums.zero_sign_flips;
  out.sign_flips += sums.sign_flips;
  out.abs.raise(sums.max_abs, chunk);
  out.rel.raise(sums.max_rel, chunk);
}

// --- Element by element --------------------------------------------------

void count_nonfinite(double v, PartialSide& side) {
  side.nan += std::isnan(v);
  side.pos_inf += std::isinf(v) && v > 0;
  side.neg_inf += std::isinf(v) && v < 0;
}

// A pair of which one or both are not finite.
void add_nonfinite(double x, double y, std::int64_t index, StatsPartial& out) {
  const auto add_side = [](double v, PartialSide& side) {
    if (!std::isfinite(v)) return count_nonfinite(v, side);
    extend(side, v, v);
    side.unpaired_sum += v;
    side.unpaired_squares += v * v;
  };
  add_side(x, out.golden);
  add_side(y, out.target);
  if (x == y || (std::isnan(x) && std::isnan(y))) return;
  ++out.mismatches;
  ++out.nonfinite_mismatches;
  if (out.first_nonfinite_mismatch < 0) out.first_nonfinite_mismatch = index;
}

void add_products(const Numbers& v, StatsPartial& out) {
  const auto [x, y, d] = v;
  const double terms[kSumCount] = {x, x * x, y,     y * y,        x * y,
                                   d, x * d, d * d, std::fabs(d), 0};
  for (std::size_t s = 0; s < kSumCount; ++s) out.sum[s] += terms[s];
  extend(out.golden, x, x);
  extend(out.target, y, y);
}

void count_signs(double x, double y, StatsPartial& out) {
  if (std::signbit(x) == std::signbit(y)) return;
  out.zero_sign_flips += x == 0 && y == 0;
  out.sign_flips += x != 0 && y != 0;
}

bool in_fp32(Arithmetic arithmetic) {
  return arithmetic != Arithmetic::kF64 && arithmetic != Arithmetic::kInt64;
}

// The quotient as the kernels of fp32 arithmetic have it, so that equal
// quotients are equal wherever they were computed.
double fp32_quotient(double x, double y, double quotient) {
  const auto fx = static_cast<float>(x);
  const float r = std::fabs((static_cast<float>(y) - fx) / fx);
  return std::isfinite(r) ? static_cast<double>(r) : quotient;
}

double fp32_difference(double x, double y, double d) {
  const float r = std::fabs(static_cast<float>(y) - static_cast<float>(x));
  return std::isfinite(r) ? static_cast<double>(r) : std::fabs(d);
}

void add_relative(Arithmetic arithmetic, const Numbers& v, std::int64_t chunk,
                  StatsPartial& out) {
  if (v.x == 0) {
    ++out.golden_zeros;
    if (v.d != 0) out.rel.raise(std::numeric_limits<double>::infinity(), chunk);
    return;
  }
  const double quotient = std::fabs(v.d) / std::fabs(v.x);
  out.sum[kSumRel] += quotient;
  out.rel.raise(
      in_fp32(arithmetic) ? fp32_quotient(v.x, v.y, quotient) : quotient,
      chunk);
}

void add_finite(Arithmetic arithmetic, const Numbers& v, std::int64_t chunk,
                StatsPartial& out) {
  ++out.finite;
  add_products(v, out);
  out.mismatches += v.d != 0;
  count_signs(v.x, v.y, out);
  out.abs.raise(
      in_fp32(arithmetic) ? fp32_difference(v.x, v.y, v.d) : std::fabs(v.d),
      chunk);
  add_relative(arithmetic, v, chunk, out);
}

// Elements [begin, data.n) of the chunk.
void add_elements(const PairPlan& plan, std::int64_t chunk,
                  const ChunkData& data, std::int64_t begin,
                  StatsPartial& out) {
  visit_numbers(plan, data, [&](auto numbers) {
    for (std::int64_t i = begin; i < data.n; ++i) {
      const Numbers v = numbers(i);
      if (std::isfinite(v.x) && std::isfinite(v.y))
        add_finite(plan.arithmetic(), v, chunk, out);
      else
        add_nonfinite(v.x, v.y, chunk * kChunk + i, out);
      if constexpr (requires { numbers.difference(i); }) {
        const WideInt d = numbers.difference(i);
        out.max_abs_int = std::max(out.max_abs_int,
                                   static_cast<std::uint64_t>(d < 0 ? -d : d));
      }
    }
  });
}

// --- Bits ------------------------------------------------------------------

std::int64_t number_bytes(const PairPlan& plan) {
  switch (plan.arithmetic()) {
    case Arithmetic::kBf16:
    case Arithmetic::kF16:
      return 2;
    case Arithmetic::kF32:
      return 4;
    case Arithmetic::kInt64:
      return traits(plan.golden_dtype()).bits / 8;
    default:
      return 8;
  }
}

bool same_bits(const PairPlan& plan, const ChunkData& data,
               std::int64_t begin) {
  if (!plan.same_dtype()) return false;
  if (plan.decodes()) return data.same_bytes;
  const std::int64_t bytes = number_bytes(plan);
  return std::memcmp(static_cast<const char*>(data.golden) + begin * bytes,
                     static_cast<const char*>(data.target) + begin * bytes,
                     static_cast<std::size_t>((data.n - begin) * bytes)) == 0;
}

}  // namespace

void add_chunk(const PairPlan& plan, std::int64_t chunk, const ChunkData& data,
               StatsPartial& out) {
  ChunkSums sums;
  std::int64_t done = data.n / kStep * kStep;
  ChunkState state = ChunkState::kUntrusted;
  if (done > 0) state = run_kernel(plan.arithmetic(), data, done, sums);
  if (state == ChunkState::kUntrusted)
    done = 0;
  else
    add_sums(chunk, done, sums, out);
  if (done < data.n) add_elements(plan, chunk, data, done, out);
  const bool equal_start = state == ChunkState::kEqual && !plan.decodes();
  const std::int64_t unknown = equal_start ? done : 0;
  out.bitwise_equal = out.bitwise_equal && state != ChunkState::kDone &&
                      (unknown == data.n || same_bits(plan, data, unknown));
}

}  // namespace assay
