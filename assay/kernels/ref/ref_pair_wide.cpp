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

void add_pair(double x, double y, int lane, ChunkSums& out) {
  const double d = y - x;
  add_golden(x, lane, out);
  const auto add_product = [&](Sum sum, double a, double b) {
    out.lane[sum][lane] = std::fma(a, b, out.lane[sum][lane]);
  };
  out.lane[kSumY][lane] += y;
  add_product(kSumYY, y, y);
  add_product(kSumXY, x, y);
  out.lane[kSumD][lane] += d;
  add_product(kSumXD, x, d);
  add_product(kSumDD, d, d);
  out.lane[kSumAbsD][lane] += std::fabs(d);
  out.max_abs = std::max(out.max_abs, std::fabs(d));
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

// Quotients are summed in F for kFlush elements, then in fp64.
template <typename F>
ChunkState pair_chunk(const F* x, const F* y, std::int64_t n, int lanes,
                      ChunkSums& out) {
  clear(out);
  if (std::memcmp(x, y, static_cast<std::size_t>(n) * sizeof(F)) == 0)
    return equal_chunk(x, n, lanes, out);
  F partial[kLanes] = {};
  for (std::int64_t i = 0; i < n; ++i) {
    const int lane = static_cast<int>(i % lanes);
    add_pair(x[i], y[i], lane, out);
    extend(x[i], out.x_min, out.x_max);
    extend(y[i], out.y_min, out.y_max);
    count_pair(x[i], y[i], out);
    partial[lane] += quotient(x[i], y[i], out);
    const bool end = (i + 1) % kFlush == 0 || i + 1 == n;
    for (int k = 0; end && sizeof(F) == 4 && k < lanes; ++k) {
      out.lane[kSumRel][k] += static_cast<double>(partial[k]);
      partial[k] = 0;
    }
  }
  for (int k = 0; sizeof(F) == 8 && k < lanes; ++k)
    out.lane[kSumRel][k] = static_cast<double>(partial[k]);
  return all_finite(out) ? ChunkState::kDone : ChunkState::kUntrusted;
}

}  // namespace

ChunkState ref_pair_f64(const double* x, const double* y, std::int64_t n,
                        ChunkSums& out) {
  return pair_chunk(x, y, n, kLanes / 2, out);
}
ChunkState ref_pair_f32(const float* x, const float* y, std::int64_t n,
                        ChunkSums& out) {
  return pair_chunk(x, y, n, kLanes, out);
}

}  // namespace assay
