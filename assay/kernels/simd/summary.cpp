// A tensor's own statistics in vectors, once for every instruction set.
#include "assay/kernels/summary.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/summary.cpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>
#include <limits>

#include "assay/kernels/ref/ref_summary.h"
#include "assay/kernels/simd/simd_summary.h"

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DTag = hn::CappedTag<double, 8>;
using DVec = hn::Vec<DTag>;

// As many stored elements as a vector of fp64 has lanes, widened exactly.
struct WidenF64 {
  using T = double;
  static HWY_INLINE DVec load(const T* p) { return hn::LoadU(DTag(), p); }
};
struct WidenF32 {
  using T = float;
  static HWY_INLINE DVec load(const T* p) {
    const hn::Rebind<float, DTag> d;
    return hn::PromoteTo(DTag(), hn::LoadU(d, p));
  }
};
struct WidenBf16 {
  using T = std::uint16_t;
  static HWY_INLINE DVec load(const T* p) {
    const hn::Rebind<float, DTag> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const hn::Rebind<std::uint16_t, DTag> d16;
    const auto words = hn::PromoteTo(du, hn::LoadU(d16, p));
    return hn::PromoteTo(DTag(), hn::BitCast(d, hn::ShiftLeft<16>(words)));
  }
};
struct WidenF16 {
  using T = std::uint16_t;
  static HWY_INLINE DVec load(const T* p) {
    const hn::Rebind<float, DTag> d;
    const hn::Rebind<hwy::float16_t, DTag> d16;
    return hn::PromoteTo(
        DTag(),
        hn::PromoteTo(
            d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p))));
  }
};

// Elements ahead of the loads to ask for.
constexpr int kPrefetchBytes = 2048;

// False, and `out` garbage, where an element is not finite: a lane's sum of
// finite values of these dtypes is, but for float64.
template <class Widen>
bool summarise_finite(const typename Widen::T* x, std::int64_t n,
                      SummarySums& out) {
  const DTag d;
  constexpr int kVecs = kSummaryLanes / static_cast<int>(hn::MaxLanes(DTag()));
  constexpr auto kWidth = static_cast<std::int64_t>(hn::MaxLanes(DTag()));
  DVec sum[kVecs], squares[kVecs], low[kVecs], high[kVecs], zeros[kVecs];
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (int v = 0; v < kVecs; ++v) {
    sum[v] = squares[v] = zeros[v] = hn::Zero(d);
    low[v] = hn::Set(d, kInf);
    high[v] = hn::Set(d, -kInf);
  }
  const auto one = hn::Set(d, 1.0), zero = hn::Zero(d);
  const auto add = [&](const typename Widen::T* p) HWY_ATTR {
    for (int v = 0; v < kVecs; ++v) {
      const DVec value = Widen::load(p + v * kWidth);
      sum[v] = hn::Add(sum[v], value);
      squares[v] = hn::MulAdd(value, value, squares[v]);
      low[v] = hn::Min(low[v], value);
      high[v] = hn::Max(high[v], value);
      zeros[v] =
          hn::Add(zeros[v], hn::IfThenElseZero(hn::Eq(value, zero), one));
    }
  };
  std::int64_t i = 0;
  for (; i + kSummaryLanes <= n; i += kSummaryLanes) {
    hwy::Prefetch(reinterpret_cast<const char*>(x + i) + kPrefetchBytes);
    add(x + i);
  }
  for (int v = 0; v < kVecs; ++v) {
    hn::StoreU(sum[v], d, out.sum + v * kWidth);
    hn::StoreU(squares[v], d, out.squares + v * kWidth);
  }
  auto count = zeros[0], least = low[0], most = high[0];
  for (int v = 1; v < kVecs; ++v) {
    count = hn::Add(count, zeros[v]);
    least = hn::Min(least, low[v]);
    most = hn::Max(most, high[v]);
  }
  out.zeros = static_cast<std::int64_t>(hn::GetLane(hn::SumOfLanes(d, count)));
  out.min = hn::GetLane(hn::MinOfLanes(d, least));
  out.max = hn::GetLane(hn::MaxOfLanes(d, most));
  out.nan = out.positive_inf = out.negative_inf = 0;
  for (; i < n; ++i) {
    typename Widen::T padded[kSummaryLanes] = {};
    std::memcpy(padded, x + i, sizeof padded[0]);
    const double value = hn::GetLane(Widen::load(padded));
    const auto lane = static_cast<int>(i % kSummaryLanes);
    out.sum[lane] += value;
    out.squares[lane] = hn::GetLane(hn::MulAdd(
        hn::Set(d, value), hn::Set(d, value), hn::Set(d, out.squares[lane])));
    out.min = value < out.min ? value : out.min;
    out.max = value > out.max ? value : out.max;
    out.zeros += value == 0;
  }
  out.min += 0.0;
  out.max += 0.0;
  double all = 0;
  for (int lane = 0; lane < kSummaryLanes; ++lane) all += out.sum[lane] * 0.0;
  return all == 0;
}

bool summarise_finite(DType dtype, const void* x, std::int64_t n,
                      SummarySums& out) {
  switch (dtype) {
    case DType::kF64:
      return summarise_finite<WidenF64>(static_cast<const double*>(x), n, out);
    case DType::kF32:
      return summarise_finite<WidenF32>(static_cast<const float*>(x), n, out);
    case DType::kBF16:
      return summarise_finite<WidenBf16>(static_cast<const std::uint16_t*>(x),
                                         n, out);
    default:
      return summarise_finite<WidenF16>(static_cast<const std::uint16_t*>(x), n,
                                        out);
  }
}

void summarise(DType dtype, const void* x, std::int64_t n, SummarySums& out) {
  if (!summarise_finite(dtype, x, n, out)) ref::summarise(dtype, x, n, out);
}

}  // namespace

const SummaryKernels* summary_table() {
  static constexpr SummaryKernels kTable = {ASSAY_ISA_NAME, &summarise};
  return &kTable;
}

#else

const SummaryKernels* summary_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(summary_table);

std::vector<const SummaryKernels*> simd_summary_tables() {
  ASSAY_COLLECT_TABLES(SummaryKernels, summary_table);
}

}  // namespace assay
#endif
