#include "assay/metrics/stats_masked.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>

#include "assay/kernels/kernels.h"
#include "assay/metrics/stats_sums.h"

namespace assay {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// All ones where v is finite, else 0.
std::uint64_t finite_mask(double v) {
  constexpr std::uint64_t kExponent = std::uint64_t{0x7ff} << 52;
  const auto bits = std::bit_cast<std::uint64_t>(v);
  return std::uint64_t{0} - ((bits & kExponent) != kExponent);
}
// v where the mask is set, else `other`.
double select(std::uint64_t mask, double v, double other) {
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(v) & mask) |
                               (std::bit_cast<std::uint64_t>(other) & ~mask));
}

struct Range {
  double min = kInf, max = -kInf;
  void add(std::uint64_t mask, double v) {
    const double low = select(mask, v, kInf), high = select(mask, v, -kInf);
    min = low < min ? low : min;
    max = high > max ? high : max;
  }
};

struct Masked {
  alignas(64) double x[kChunk], y[kChunk];
  std::int32_t out[kChunk];  // places of the pairs taken out
  std::int64_t out_count;

  // Zeros instead of pairs that are not finite, and the ranges of the others.
  // Without branches: which pairs those are is anybody's guess.
  void mask(std::int64_t n, Range& golden, Range& target) {
    Range gr, tr;
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint64_t keep = finite_mask(x[i]) & finite_mask(y[i]);
      out[count] = static_cast<std::int32_t>(i);
      count += keep == 0;
      gr.add(keep, x[i]);
      tr.add(keep, y[i]);
      x[i] = select(keep, x[i], 0.0);
      y[i] = select(keep, y[i], 0.0);
    }
    out_count = count;
    golden = gr;
    target = tr;
  }
};

// Kernels of narrower numbers have fp32 maxima: these must compare with them.
void round_maxima(ChunkSums& sums) {
  for (double* v : {&sums.max_abs, &sums.max_rel}) {
    const auto narrow = static_cast<double>(static_cast<float>(*v));
    if (std::isfinite(narrow)) *v = narrow;
  }
}

void widen(Arithmetic arithmetic, const void* in, std::int64_t n, double* out) {
  const KernelTable& table = kernels();
  switch (arithmetic) {
    case Arithmetic::kBf16:
      return table.widen_bf16(static_cast<const std::uint16_t*>(in), n, out);
    case Arithmetic::kF16:
      return table.widen_f16(static_cast<const std::uint16_t*>(in), n, out);
    case Arithmetic::kF32:
      return table.widen_f32(static_cast<const float*>(in), n, out);
    default:
      std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(double));
  }
}

Masked& load(Arithmetic arithmetic, const ChunkData& data, std::int64_t n) {
  static thread_local const auto masked = std::make_unique<Masked>();
  widen(arithmetic, data.golden, n, masked->x);
  widen(arithmetic, data.target, n, masked->y);
  return *masked;
}

}  // namespace

MaskedNumbers masked_numbers(Arithmetic arithmetic, const ChunkData& data,
                             std::int64_t n) {
  Masked& m = load(arithmetic, data, n);
  Range golden, target;
  m.mask(n, golden, target);
  return {m.x, m.y, m.out_count};
}

bool add_masked(Arithmetic arithmetic, std::int64_t chunk,
                const ChunkData& data, std::int64_t n, StatsPartial& out) {
  if (arithmetic == Arithmetic::kInt64) return false;
  Masked& m = load(arithmetic, data, n);
  Range golden, target;
  m.mask(n, golden, target);
  ChunkSums sums;
  if (kernels().pair_f64(m.x, m.y, n, sums) == ChunkState::kUntrusted)
    return false;
  sums.x_min = golden.min;
  sums.x_max = golden.max;
  sums.y_min = target.min;
  sums.y_max = target.max;
  sums.golden_zeros -= m.out_count;
  if (arithmetic != Arithmetic::kF64) round_maxima(sums);
  add_sums(chunk, n - m.out_count, sums, out);
  load(arithmetic, data, n);
  for (std::int64_t k = 0; k < m.out_count; ++k)
    add_nonfinite(m.x[m.out[k]], m.y[m.out[k]], chunk * kChunk + m.out[k], out);
  return true;
}

}  // namespace assay
