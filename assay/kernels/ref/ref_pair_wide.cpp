// Tier 1 of f64 and f32 chunks, plainly.
#include "assay/kernels/ref/ref_chunk.h"
#include "assay/kernels/ref/ref_kernels.h"

namespace assay {
namespace {

using namespace ref;

void add_golden(double x, int lane, ChunkSums& out) {
  out.lane[kSumX][lane] += x;
  out.lane[kSumXX][lane] = std::fma(x, x, out.lane[kSumXX][lane]);
}

void add_product(ChunkSums& out, Sum sum, int lane, double a, double b) {
  out.lane[sum][lane] = std::fma(a, b, out.lane[sum][lane]);
}

void add_target(double x, double y, int lane, ChunkSums& out) {
  out.lane[kSumY][lane] += y;
  add_product(out, kSumYY, lane, y, y);
  add_product(out, kSumXY, lane, x, y);
}

void add_difference(double x, double y, int lane, ChunkSums& out) {
  const double d = y - x;
  add_golden(x, lane, out);
  out.lane[kSumD][lane] += d;
  add_product(out, kSumXD, lane, x, d);
  add_product(out, kSumDD, lane, d, d);
}

// |d| / |x| in F; 0 for x = 0, which only the maximum notices.
template <typename F>
F quotient(F x, F y, ChunkSums& out) {
  if (x == 0) {
    if (y != 0) out.max_rel = kInf;
    return 0;
  }
  const F r = std::fabs((y - x) / x);
  out.max_rel = std::max(out.max_rel, static_cast<double>(r));
  return r;
}

template <typename F>
ChunkState equal_chunk(const F* x, std::int64_t n, int lanes, ChunkSums& out) {
  for (std::int64_t i = 0; i < n; ++i) {
    add_golden(x[i], static_cast<int>(i % lanes), out);
    extend(x[i], out.x_min, out.x_max);
    out.golden_zeros += x[i] == 0;
  }
  return all_finite(out) ? finish_equal(out) : ChunkState::kUntrusted;
}

template <typename F>
bool same_bits(const F* x, const F* y, std::int64_t n) {
  return std::memcmp(x, y, static_cast<std::size_t>(n) * sizeof(F)) == 0;
}

// |d| and |d| / |x| of an f32 chunk: summed in fp32 for kFlush elements.
struct Partials {
  float abs[kLanes] = {}, rel[kLanes] = {};
  void flush(ChunkSums& out) {
    for (int k = 0; k < kLanes; ++k) {
      out.lane[kSumAbsD][k] += static_cast<double>(abs[k]);
      out.lane[kSumRel][k] += static_cast<double>(rel[k]);
    }
    *this = {};
  }
};

}  // namespace

ChunkState ref_pair_f64(const double* x, const double* y, std::int64_t n,
                        ChunkSums& out) {
  constexpr int kF64Lanes = kLanes / 2;
  clear(out);
  if (same_bits(x, y, n)) return equal_chunk(x, n, kF64Lanes, out);
  for (std::int64_t i = 0; i < n; ++i) {
    const int lane = static_cast<int>(i % kF64Lanes);
    const double a = std::fabs(y[i] - x[i]);
    add_difference(x[i], y[i], lane, out);
    add_target(x[i], y[i], lane, out);
    out.lane[kSumAbsD][lane] += a;
    out.lane[kSumRel][lane] += quotient(x[i], y[i], out);
    out.max_abs = std::max(out.max_abs, a);
    extend(x[i], out.x_min, out.x_max);
    extend(y[i], out.y_min, out.y_max);
    count_pair(x[i], y[i], out);
  }
  return all_finite(out) ? ChunkState::kDone : ChunkState::kUntrusted;
}

ChunkState ref_pair_f32(const float* x, const float* y, std::int64_t n,
                        ChunkSums& out) {
  clear(out);
  if (same_bits(x, y, n)) return equal_chunk(x, n, kLanes, out);
  Partials partials;
  for (std::int64_t i = 0; i < n; ++i) {
    const int lane = static_cast<int>(i % kLanes);
    const float a = std::fabs(y[i] - x[i]);
    add_difference(x[i], y[i], lane, out);
    partials.abs[lane] += a;
    partials.rel[lane] += quotient(x[i], y[i], out);
    out.max_abs = std::max(out.max_abs, static_cast<double>(a));
    extend(x[i], out.x_min, out.x_max);
    extend(y[i], out.y_min, out.y_max);
    count_pair(x[i], y[i], out);
    if ((i + 1) % kFlush == 0 || i + 1 == n) partials.flush(out);
  }
  if (!all_finite(out)) return ChunkState::kUntrusted;
  if (derive_target(out)) return ChunkState::kDone;
  for (const Sum s : {kSumY, kSumYY, kSumXY})
    std::fill_n(out.lane[s], kLanes, 0.0);
  for (std::int64_t i = 0; i < n; ++i)
    add_target(x[i], y[i], static_cast<int>(i % kLanes), out);
  return ChunkState::kDone;
}

}  // namespace assay
