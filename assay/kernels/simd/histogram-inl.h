// Histograms of bucket bytes by comparing whole vectors with each bucket that
// occurs: no scattered increments, and fast where few buckets occur.
// A part of simd_kernels.cpp, which includes it once per instruction set: no
// guard, no includes.

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::uint8_t kNoBucket = 0xff;

// Adds the buckets (0..63, or kNoBucket) of n elements to the counts, and reads
// up to the next multiple of 64, which must be kNoBucket.
HWY_INLINE void count_buckets(const std::uint8_t* bucket, std::int64_t n,
                              std::array<std::uint32_t, 64>& counts) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, std::uint8_t{1});
  auto low = hn::Set(d, kNoBucket);
  auto high = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += step) {
    const auto v = hn::LoadU(d, bucket + i);
    low = hn::Min(low, v);
    high = hn::Max(high, hn::Add(v, one));  // kNoBucket wraps to 0
  }
  HWY_ALIGN std::uint8_t lows[64], highs[64];
  hn::StoreU(low, d, lows);
  hn::StoreU(high, d, highs);
  int first = kNoBucket, past = 0;
  for (std::int64_t i = 0; i < step; ++i) {
    first = lows[i] < first ? lows[i] : first;
    past = highs[i] > past ? highs[i] : past;
  }
  for (int b = first; b < past; ++b) {
    const auto wanted = hn::Set(d, static_cast<std::uint8_t>(b));
    std::size_t count = 0;
    for (std::int64_t i = 0; i < n; i += step)
      count += hn::CountTrue(d, hn::Eq(hn::LoadU(d, bucket + i), wanted));
    counts[static_cast<std::size_t>(b)] += static_cast<std::uint32_t>(count);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();
