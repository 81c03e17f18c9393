// Compiles the kernels of random arrays once for every instruction set and
// hands out their tables.
#include "assay/kernels/random_kernels.h"
#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstddef>

#include "assay/kernels/simd/simd_random.h"
#include "assay/numerics/as241.h"
#include "assay/numerics/basic_math.h"

#if ASSAY_VECTOR_TARGET
#include "assay/kernels/simd/normal_quantile-inl.h"
#include "assay/kernels/simd/philox_wide-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {

// The low half of each lane of `high` above that of `low`.
HWY_INLINE WVec joined(WVec high, WVec low) {
  return hn::Or(hn::ShiftLeft<32>(high), hn::And(low, wide(0xffffffffu)));
}

// Counters in flight: a round waits for its multiplications, four chains of
// them fill the wait. More would not fit the registers.
inline constexpr std::size_t kChains = HWY_TARGET == HWY_AVX2 ? 2 : 4;

void words(std::uint64_t key, std::uint64_t stream, std::uint64_t block,
           std::uint64_t* out) {
  const WTag d;
  const auto lanes = hn::Lanes(d);
  const Keys keys = keys_of(key);
  const auto low_stream = wide(stream & 0xffffffffu);
  const auto high_stream = wide(stream >> 32);
  for (std::size_t i = 0; i < kRandomPart; i += 2 * lanes * kChains) {
    Words word[kChains];
    for (std::size_t c = 0; c < kChains; ++c) {
      const auto at = hn::Iota(d, block + i / 2 + c * lanes);
      word[c] = {{at, hn::ShiftRight<32>(at), low_stream, high_stream}};
    }
    philox_rounds(word, keys);
    for (std::size_t c = 0; c < kChains; ++c) {
      const auto& v = word[c].v;
      hn::StoreInterleaved2(joined(v[0], v[1]), joined(v[2], v[3]), d,
                            out + i + 2 * c * lanes);
    }
  }
}

void quantiles(double* p) {
  const QTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // The tails are gathered first: they take a logarithm, and are few.
  alignas(64) double tails[kRandomPart + 8];
  std::int64_t places[kRandomPart], count = 0;
  for (std::int64_t i = 0; i < kRandomPart; ++i) {
    tails[count] = p[i];
    places[count] = i;
    const double q = p[i] - 0.5;
    count += q > as241::kCentral || q < -as241::kCentral;
  }
  for (std::int64_t i = 0; i < kRandomPart; i += lanes)
    hn::StoreU(central_quantile(hn::LoadU(d, p + i)), d, p + i);
  for (std::int64_t i = count; i < count + lanes; ++i) tails[i] = 0.01;
  for (std::int64_t i = 0; i < count; i += lanes) {
    const QVec v = hn::LoadU(d, tails + i);
    bool far = false;
    const QVec z = tail_quantile(v, far);
    alignas(64) double each[8];
    hn::Store(z, d, each);
    for (std::int64_t k = 0; k < lanes && i + k < count; ++k)
      p[places[i + k]] = far ? normal_quantile(tails[i + k]) : each[k];
  }
}

}  // namespace

const RandomKernels* random_table() {
  static constexpr RandomKernels kTable = {ASSAY_ISA_NAME, &words, &quantiles};
  return &kTable;
}

#else

const RandomKernels* random_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(random_table);

std::vector<const RandomKernels*> simd_random_tables() {
  ASSAY_COLLECT_TABLES(RandomKernels, random_table);
}

}  // namespace assay
#endif
