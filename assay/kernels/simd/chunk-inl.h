// What the chunk kernels of every element type share: fp64 lane sums, sign
// counts, finishing a chunk.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How far ahead of the loads to ask for a line: the hardware prefetcher stops
// at 4 KiB pages and loses a few percent without it.
inline constexpr int kPrefetchBytes = 2048;

template <typename T>
HWY_INLINE void prefetch_ahead(const T* p) {
  hwy::Prefetch(reinterpret_cast<const char*>(p) + kPrefetchBytes);
}

template <class D, class V>
HWY_INLINE double max_of(D d, V v) {
  return static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, v)));
}
template <class D, class V>
HWY_INLINE double min_of(D d, V v) {
  return static_cast<double>(hn::GetLane(hn::MinOfLanes(d, v)));
}
HWY_INLINE double larger(double a, double b) { return a > b ? a : b; }
HWY_INLINE double smaller(double a, double b) { return a < b ? a : b; }

HWY_INLINE void clear(ChunkSums& out) {
  const hn::CappedTag<double, 8> d;
  double* lane = &out.lane[0][0];
  for (std::size_t i = 0; i < kSumCount * kLanes; i += hn::Lanes(d))
    hn::StoreU(hn::Zero(d), d, lane + i);
  constexpr double kInf = std::numeric_limits<double>::infinity();
  out.x_min = out.y_min = kInf;
  out.x_max = out.y_max = -kInf;
  out.max_abs = out.max_rel = 0;
  out.mismatches = out.zero_sign_flips = out.sign_flips = 0;
  out.golden_zeros = 0;
}

// 0 * sum of all lanes is NaN when any of them is not finite.
HWY_INLINE bool all_finite(const ChunkSums& out) {
  const hn::CappedTag<double, 8> d;
  const double* lane = &out.lane[0][0];
  auto sum = hn::Zero(d);
  for (std::size_t i = 0; i < kSumCount * kLanes; i += hn::Lanes(d))
    sum = hn::MulAdd(hn::LoadU(d, lane + i), hn::Zero(d), sum);
  return hn::AllTrue(d, hn::Eq(sum, hn::Zero(d)));
}

// Every element equal: the target's figures are the golden's.
HWY_INLINE ChunkState finish_equal(ChunkSums& out) {
  for (int i = 0; i < kLanes; ++i) {
    out.lane[kSumY][i] = out.lane[kSumX][i];
    out.lane[kSumYY][i] = out.lane[kSumXY][i] = out.lane[kSumXX][i];
  }
  out.y_min = out.x_min;
  out.y_max = out.x_max;
  return ChunkState::kEqual;
}

// y = x + d, lane by lane, from the sums of x and d. False where that cancels
// and the target's sums must be taken anew.
HWY_INLINE bool derive_target(ChunkSums& out) {
  double xx = 0, yy = 0;
  for (int i = 0; i < kLanes; ++i) {
    const double cross = out.lane[kSumXD][i];
    const double product = out.lane[kSumXX][i] + cross;
    out.lane[kSumY][i] = out.lane[kSumX][i] + out.lane[kSumD][i];
    out.lane[kSumXY][i] = product;
    out.lane[kSumYY][i] = product + (cross + out.lane[kSumDD][i]);
    xx += out.lane[kSumXX][i];
    yy += out.lane[kSumYY][i];
  }
  return yy >= 0.25 * xx;
}

// Adds an fp32 partial sum to its fp64 lanes and clears it.
template <class V>
HWY_INLINE void flush(V& partial, double* lane) {
  const hn::DFromV<V> d;
  const hn::Half<decltype(d)> half;
  const hn::Repartition<double, decltype(d)> dd;
  const auto low = hn::PromoteTo(dd, hn::LowerHalf(half, partial));
  const auto high = hn::PromoteTo(dd, hn::UpperHalf(half, partial));
  double* upper = lane + hn::Lanes(dd);
  hn::StoreU(hn::Add(hn::LoadU(dd, lane), low), dd, lane);
  hn::StoreU(hn::Add(hn::LoadU(dd, upper), high), dd, upper);
  partial = hn::Zero(d);
}

// True when the sign bit of any lane is set.
template <class V>
HWY_INLINE bool any_sign(V v) {
  const hn::DFromV<V> d;
  return !hn::AllFalse(d, hn::Lt(v, hn::Zero(d)));
}

// True when the first kStep elements are the same bits.
template <typename U>
HWY_INLINE bool same_start(const U* x, const U* y) {
  const hn::CappedTag<U, 64 / sizeof(U)> d;
  auto diff = hn::Zero(d);
  for (std::size_t i = 0; i < kStep; i += hn::Lanes(d))
    diff = hn::Or(diff, hn::Xor(hn::LoadU(d, x + i), hn::LoadU(d, y + i)));
  return hn::AllTrue(d, hn::Eq(diff, hn::Zero(d)));
}

// Counts pairs whose signs differ. Only for chunks where some do.
template <typename U>
HWY_NOINLINE void count_signs(const U* x, const U* y, std::int64_t n,
                              ChunkSums& out) {
  const hn::CappedTag<U, 64 / sizeof(U)> d;
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  const auto sign = hn::Set(d, kSign);
  const auto zero = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += static_cast<int>(hn::Lanes(d))) {
    const auto vx = hn::LoadU(d, x + i);
    const auto vy = hn::LoadU(d, y + i);
    const auto same = hn::Eq(hn::And(hn::Xor(vx, vy), sign), zero);
    const auto x0 = hn::Eq(hn::AndNot(sign, vx), zero);
    const auto y0 = hn::Eq(hn::AndNot(sign, vy), zero);
    const auto zeros = hn::AndNot(same, hn::And(x0, y0));
    const auto values = hn::Not(hn::Or(same, hn::Or(x0, y0)));
    out.zero_sign_flips += static_cast<int>(hn::CountTrue(d, zeros));
    out.sign_flips += static_cast<int>(hn::CountTrue(d, values));
  }
  out.mismatches -= out.zero_sign_flips;
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
