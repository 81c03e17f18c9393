// Conversions in vectors, once for every instruction set.
#include "assay/kernels/simd/simd_convert.h"

#include "assay/kernels/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/simd_convert.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/partial-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET

template <class Stored>
void widen(const std::byte* bytes, std::int64_t n, float* out) {
  const auto* in = reinterpret_cast<const typename Stored::T*>(bytes);
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats)
    StoredF32::store(Stored::load(in + i), out + i);
  if (i < n)
    store_some<StoredF32>(load_some<Stored>(in + i, n - i, 0), n - i, out + i);
}

template <class Stored>
void narrow(const float* in, std::int64_t n, std::byte* bytes) {
  auto* out = reinterpret_cast<typename Stored::T*>(bytes);
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats)
    Stored::store(StoredF32::load(in + i), out + i);
  if (i < n)
    store_some<Stored>(load_some<StoredF32>(in + i, n - i, 0), n - i, out + i);
}

// sums += the lanes of v.
HWY_INLINE void add_lanes(FVec v, double* sums) {
  const hn::Repartition<double, FTag> d;
  const hn::Half<FTag> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto low = hn::PromoteTo(d, hn::LowerHalf(half, v));
  const auto high = hn::PromoteTo(d, hn::UpperHalf(half, v));
  hn::StoreU(hn::Add(hn::LoadU(d, sums), low), d, sums);
  hn::StoreU(hn::Add(hn::LoadU(d, sums + lanes), high), d, sums + lanes);
}

template <class Stored>
void accumulate(const std::byte* bytes, std::int64_t n, double* sums) {
  const auto* in = reinterpret_cast<const typename Stored::T*>(bytes);
  std::int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats)
    add_lanes(Stored::load(in + i), sums + i);
  if (i == n) return;
  alignas(64) float rest[kFloats];
  StoredF32::store(load_some<Stored>(in + i, n - i, 0), rest);
  for (std::int64_t j = i; j < n; ++j) sums[j] += double{rest[j - i]};
}

const ConvertKernels* convert_table() {
  static constexpr ConvertKernels kTable = {
      ASSAY_ISA_NAME,
      {&widen<StoredF32>, &widen<StoredBf16>, &widen<StoredF16>},
      {&narrow<StoredF32>, &narrow<StoredBf16>, &narrow<StoredF16>},
      {&accumulate<StoredF32>, &accumulate<StoredBf16>, &accumulate<StoredF16>},
  };
  return &kTable;
}

#else

const ConvertKernels* convert_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(convert_table);

std::vector<const ConvertKernels*> simd_convert_tables() {
  ASSAY_COLLECT_TABLES(ConvertKernels, convert_table);
}

}  // namespace assay
#endif
