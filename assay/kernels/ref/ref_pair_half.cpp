// Tier 1 of bf16 and f16 chunks, plainly, with the fp32 partial sums that
// PairFn describes.
#include "assay/kernels/ref/ref_chunk.h"
#include "assay/kernels/ref/ref_kernels.h"
#include "assay/kernels/scalar_half.h"

namespace assay {
namespace {

using namespace ref;

struct Bf16 {
  static float value(std::uint16_t code) { return bf16_value(code); }
  static int lane(std::int64_t i) { return static_cast<int>(i / 2 % kLanes); }
};
struct F16 {
  static float value(std::uint16_t code) { return f16_value(code); }
  static int lane(std::int64_t i) { return static_cast<int>(i % kLanes); }
};

// fp32 partial sums of one group of kFlush elements.
struct Partials {
  float sum[kSumCount][kLanes] = {};

  void add(Sum which, int lane, float v) { sum[which][lane] += v; }
  void add_product(Sum which, int lane, float a, float b) {
    sum[which][lane] = std::fmaf(a, b, sum[which][lane]);
  }
  void flush(ChunkSums& out) {
    for (int s = 0; s < kSumCount; ++s) {
      for (int k = 0; k < kLanes; ++k)
        out.lane[s][k] += static_cast<double>(sum[s][k]);
    }
    *this = {};
  }
};

// Calls add(partials, x, y, lane) for each pair, in groups of kFlush.
template <class Format, class Add>
void for_each_pair(const std::uint16_t* x, const std::uint16_t* y,
                   std::int64_t n, ChunkSums& out, Add add) {
  Partials partials;
  for (std::int64_t i = 0; i < n; ++i) {
    add(partials, Format::value(x[i]), Format::value(y[i]), Format::lane(i));
    if ((i + 1) % kFlush == 0 || i + 1 == n) partials.flush(out);
  }
}

void add_golden(Partials& p, float x, int lane) {
  p.add(kSumX, lane, x);
  p.add_product(kSumXX, lane, x, x);
}

template <class Format>
void main_pass(const std::uint16_t* x, const std::uint16_t* y, std::int64_t n,
               ChunkSums& out) {
  for_each_pair<Format>(
      x, y, n, out, [&](Partials& p, float vx, float vy, int lane) {
        const float d = vy - vx;
        const float a = std::fabs(d);
        const float r = vx != 0 ? std::fabs(a / vx) : 0;
        add_golden(p, vx, lane);
        p.add(kSumD, lane, d);
        p.add_product(kSumXD, lane, vx, d);
        p.add_product(kSumDD, lane, d, d);
        p.add(kSumAbsD, lane, a);
        p.add(kSumRel, lane, r);
        out.max_abs = std::max(out.max_abs, static_cast<double>(a));
        out.max_rel = std::max(
            out.max_rel, vx == 0 && vy != 0 ? kInf : static_cast<double>(r));
        extend(vx, out.x_min, out.x_max);
        extend(vy, out.y_min, out.y_max);
        count_pair(vx, vy, out);
      });
}

template <class Format>
void target_pass(const std::uint16_t* x, const std::uint16_t* y, std::int64_t n,
                 ChunkSums& out) {
  for (const Sum s : {kSumY, kSumYY, kSumXY})
    std::fill_n(out.lane[s], kLanes, 0.0);
  for_each_pair<Format>(x, y, n, out,
                        [](Partials& p, float vx, float vy, int lane) {
                          p.add(kSumY, lane, vy);
                          p.add_product(kSumYY, lane, vy, vy);
                          p.add_product(kSumXY, lane, vx, vy);
                        });
}

bool tiny(double magnitude) { return magnitude != 0 && magnitude < 0x1p-57; }

template <class Format>
ChunkState equal_chunk(const std::uint16_t* x, std::int64_t n, ChunkSums& out) {
  for_each_pair<Format>(x, x, n, out,
                        [&](Partials& p, float vx, float, int lane) {
                          add_golden(p, vx, lane);
                          extend(vx, out.x_min, out.x_max);
                          out.golden_zeros += vx == 0;
                        });
  if (tiny(std::max(-out.x_min, out.x_max)) || !all_finite(out))
    return ChunkState::kUntrusted;
  return finish_equal(out);
}

template <class Format>
ChunkState pair_chunk(const std::uint16_t* x, const std::uint16_t* y,
                      std::int64_t n, ChunkSums& out) {
  clear(out);
  if (std::memcmp(x, y, static_cast<std::size_t>(n) * 2) == 0)
    return equal_chunk<Format>(x, n, out);
  main_pass<Format>(x, y, n, out);
  if (!all_finite(out)) return ChunkState::kUntrusted;
  if (!derive_target(out)) target_pass<Format>(x, y, n, out);
  const bool bad = tiny(std::max(-out.x_min, out.x_max)) ||
                   tiny(std::max(-out.y_min, out.y_max)) || tiny(out.max_abs) ||
                   !all_finite(out);
  return bad ? ChunkState::kUntrusted : ChunkState::kDone;
}

}  // namespace

ChunkState ref_pair_bf16(const std::uint16_t* x, const std::uint16_t* y,
                         std::int64_t n, ChunkSums& out) {
  return pair_chunk<Bf16>(x, y, n, out);
}
ChunkState ref_pair_f16(const std::uint16_t* x, const std::uint16_t* y,
                        std::int64_t n, ChunkSums& out) {
  return pair_chunk<F16>(x, y, n, out);
}

}  // namespace assay
