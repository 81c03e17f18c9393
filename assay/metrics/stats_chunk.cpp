#include "assay/metrics/stats_chunk.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "assay/kernels/kernels.h"
#include "assay/metrics/stats_masked.h"
#include "assay/metrics/stats_numbers.h"
#include "assay/metrics/stats_sums.h"

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

// --- Element by element --------------------------------------------------

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
        out.max_abs_int =
            std::max(out.max_abs_int, magnitude_of(numbers.difference(i)));
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
  if (state != ChunkState::kUntrusted)
    add_sums(chunk, done, sums, out);
  else if (done > 0 && !add_masked(plan.arithmetic(), chunk, data, done, out))
    done = 0;
  if (done < data.n) add_elements(plan, chunk, data, done, out);
  const bool equal_start = state == ChunkState::kEqual && !plan.decodes();
  const std::int64_t unknown = equal_start ? done : 0;
  out.bitwise_equal = out.bitwise_equal && state != ChunkState::kDone &&
                      (unknown == data.n || same_bits(plan, data, unknown));
}

}  // namespace assay
