// Tier 2 of a chunk, plainly: one pair after another, the same arithmetic.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "assay/kernels/detail_constants.h"
#include "assay/kernels/ref/ref_kernels.h"
#include "assay/kernels/scalar_half.h"

namespace assay {
namespace {

template <typename T>
class Pass {
  using Constants = DetailConstants<T>;
  using Int = typename Constants::Int;
  static constexpr int kWidth = 64 / sizeof(T);

 public:
  Pass(const DetailParams& params, DetailSums& out)
      : c_(params), large_(params.small_threshold > 0), out_(out) {
    out = {};
  }

  void add(T x, T y, std::int64_t i) {
    const T d = y - x;
    const T a = std::fabs(d), ax = std::fabs(x);
    const int lane = static_cast<int>(i % kWidth);
    const Int exponent = exponent_bits(ax);
    const T u = a * number(c_.inverse_base, -exponent);
    if (ax < c_.guard && a != 0) beyond_ = true;
    ulp_[lane] += u;
    out_.ulp_max = std::max(out_.ulp_max, static_cast<double>(u));
    if (a != 0) count_buckets(a, ax, u);
    judge(a, ax, number(exponent, c_.ulp_offset));
    if (large_) large(d, a, ax, lane);
    dd_[lane] = std::fma(d, d, dd_[lane]);
    if ((i + 1) % kStep == 0) end_block(i / kStep);
  }

  // Adds the partial sums of a group.
  void flush() {
    for (int k = 0; k < kWidth; ++k) {
      out_.ulp_sum[k] += static_cast<double>(ulp_[k]);
      out_.large_rel_sum[k] += static_cast<double>(large_rel_[k]);
      out_.large_dd_sum[k] += static_cast<double>(large_dd_[k]);
      ulp_[k] = large_rel_[k] = large_dd_[k] = 0;
    }
  }

  bool finish() const {
    double sum = 0;
    for (int k = 0; k < kLanes; ++k)
      sum += out_.ulp_sum[k] + out_.large_rel_sum[k] + out_.large_dd_sum[k];
    return !beyond_ && std::isfinite(sum);
  }

 private:
  Int exponent_bits(T ax) const {
    const T inside = std::min(std::max(ax, c_.min_normal), c_.max_finite);
    return std::bit_cast<Int>(inside) & c_.exponent_mask;
  }

  // The number whose bits are the sum; modulo 2^n, as vectors add.
  static T number(Int a, Int b) {
    using Uint = typename Constants::Uint;
    return std::bit_cast<T>(
        static_cast<Uint>(static_cast<Uint>(a) + static_cast<Uint>(b)));
  }

  static std::size_t bucket(Int b) {
    return static_cast<std::size_t>(std::clamp<Int>(b, 0, 63));
  }
  void count_buckets(T a, T ax, T u) {
    const Int difference = std::bit_cast<Int>(a) - std::bit_cast<Int>(ax);
    ++out_.rel_histogram[bucket((difference >> Constants::kMantissa) + 64)];
    const Int up = std::bit_cast<Int>(u) - Constants::kUlpBucket;
    ++out_.ulp_histogram[bucket(up >> Constants::kMantissa)];
  }

  void judge(T a, T ax, T ulp) {
    out_.rel_over_1e3 += a > ax * Constants::kBelow1e3;
    out_.rel_over_5e3 += a > ax * Constants::kBelow5e3;
    const T bound = std::fma(c_.rtol, ax, std::fma(c_.ulps, ulp, c_.atol));
    out_.over_bound += a > bound;
    const T excess = a != 0 ? a / bound : T(0);
    out_.worst_excess =
        std::max(out_.worst_excess, static_cast<double>(excess));
  }

  void large(T d, T a, T ax, int lane) {
    if (ax < c_.small_threshold) {
      ++out_.small_count;
      out_.small_errors += a > c_.small_bound;
      return;
    }
    const T r = a / std::max(ax, T(1e-7));
    large_rel_[lane] += r;
    large_dd_[lane] = std::fma(d, d, large_dd_[lane]);
    out_.large_rel_max = std::max(out_.large_rel_max, static_cast<double>(r));
  }

  // Halves, then quarters, ...: the order the vector kernels add in.
  void end_block(std::int64_t block) {
    for (int half = kWidth / 2; half > 0; half /= 2) {
      for (int k = 0; k < half; ++k) dd_[k] += dd_[k + half];
    }
    out_.block_dd[block] = static_cast<double>(dd_[0]);
    std::fill_n(dd_, kWidth, T(0));
  }

  const Constants c_;
  const bool large_;
  DetailSums& out_;
  bool beyond_ = false;
  T ulp_[kWidth] = {}, large_rel_[kWidth] = {}, large_dd_[kWidth] = {};
  T dd_[kWidth] = {};
};

template <typename T, typename Code, typename Value>
bool detail(const Code* x, const Code* y, std::int64_t n,
            const DetailParams& params, DetailSums& out, Value value) {
  Pass<T> pass(params, out);
  for (std::int64_t i = 0; i < n; ++i) {
    pass.add(value(x[i]), value(y[i]), i);
    if ((i + 1) % kFlush == 0 || i + 1 == n) pass.flush();
  }
  return pass.finish();
}

}  // namespace

bool ref_detail_f64(const double* x, const double* y, std::int64_t n,
                    const DetailParams& params, DetailSums& out) {
  return detail<double>(x, y, n, params, out, [](double v) { return v; });
}
bool ref_detail_f32(const float* x, const float* y, std::int64_t n,
                    const DetailParams& params, DetailSums& out) {
  return detail<float>(x, y, n, params, out, [](float v) { return v; });
}
bool ref_detail_bf16(const std::uint16_t* x, const std::uint16_t* y,
                     std::int64_t n, const DetailParams& params,
                     DetailSums& out) {
  return detail<float>(x, y, n, params, out, bf16_value);
}
bool ref_detail_f16(const std::uint16_t* x, const std::uint16_t* y,
                    std::int64_t n, const DetailParams& params,
                    DetailSums& out) {
  return detail<float>(x, y, n, params, out, f16_value);
}

}  // namespace assay
