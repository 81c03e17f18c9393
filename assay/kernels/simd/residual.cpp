// Residual connections in vectors, once for every instruction set.
#include "assay/kernels/residual.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/residual.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "assay/kernels/simd/simd_residual.h"

#if ASSAY_VECTOR_TARGET
#include "assay/kernels/simd/stored-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {

inline constexpr std::int64_t kStep =
    2 * static_cast<std::int64_t>(hn::MaxLanes(FTag()));

HWY_INLINE FVec keep(FVec v, std::uint64_t bits) {
  std::uint8_t bytes[8];
  std::memcpy(bytes, &bits, 8);
  return hn::IfThenElseZero(hn::LoadMaskBits(FTag(), bytes), v);
}

// Which operands there are.
template <bool kBias, bool kMask, bool kResidual>
struct Present {
  static constexpr bool bias = kBias, mask = kMask, residual = kResidual;
};

// kStep elements, with the low bits of `bits`.
template <class Stored, class Has>
HWY_INLINE void add_step(const typename Stored::T* x,
                         const typename Stored::T* bias, std::uint64_t bits,
                         FVec scale, const typename Stored::T* residual,
                         typename Stored::T* out) {
  TwoVecs v = Stored::load2(x);
  if constexpr (Has::bias) {
    const TwoVecs b = Stored::load2(bias);
    v = {hn::Add(v.a, b.a), hn::Add(v.b, b.b)};
  }
  v = {hn::Mul(v.a, scale), hn::Mul(v.b, scale)};
  if constexpr (Has::mask)
    v = {keep(v.a, bits), keep(v.b, bits >> float_lanes())};
  if constexpr (Has::residual) {
    const TwoVecs r = Stored::load2(residual);
    v = {hn::Add(v.a, r.a), hn::Add(v.b, r.b)};
  }
  Stored::store2(v, out);
}

std::uint64_t mask_bits(const std::uint8_t* mask, std::int64_t begin,
                        std::int64_t count) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, mask + begin / 8,
              static_cast<std::size_t>((count + 7) / 8));
  return bits;
}

// The last n < kStep elements, through padded copies.
template <class Stored, class Has>
void add_rest(const ResidualRun& run, std::int64_t begin) {
  using T = typename Stored::T;
  const auto rest = static_cast<std::size_t>(run.n - begin) * sizeof(T);
  alignas(64) T x[kStep] = {}, bias[kStep] = {}, residual[kStep] = {};
  alignas(64) T out[kStep];
  std::memcpy(x, static_cast<const T*>(run.x) + begin, rest);
  if constexpr (Has::bias)
    std::memcpy(bias, static_cast<const T*>(run.bias) + begin, rest);
  if constexpr (Has::residual)
    std::memcpy(residual, static_cast<const T*>(run.residual) + begin, rest);
  std::uint64_t bits = 0;
  if constexpr (Has::mask) bits = mask_bits(run.mask, begin, run.n - begin);
  add_step<Stored, Has>(x, bias, bits, constant(run.scale), residual, out);
  std::memcpy(static_cast<T*>(run.out) + begin, out, rest);
}

template <class Stored, class Has>
void add_run(const ResidualRun& run) {
  using T = typename Stored::T;
  const T* x = static_cast<const T*>(run.x);
  const T* bias = static_cast<const T*>(run.bias);
  const T* residual = static_cast<const T*>(run.residual);
  T* out = static_cast<T*>(run.out);
  const auto scale = constant(run.scale);
  std::int64_t i = 0;
  for (; i + kStep <= run.n; i += kStep) {
    std::uint64_t bits = 0;
    if constexpr (Has::mask) bits = mask_bits(run.mask, i, kStep);
    fetch_ahead(x + i, kStep);
    if constexpr (Has::residual) fetch_ahead(residual + i, kStep);
    fetch_ahead(out + i, kStep);
    add_step<Stored, Has>(x + i, Has::bias ? bias + i : nullptr, bits, scale,
                          Has::residual ? residual + i : nullptr, out + i);
  }
  if (i < run.n) add_rest<Stored, Has>(run, i);
}

// bf16 is taken apart into even and odd elements where no mask asks for order.
template <bool kBias, bool kMask, bool kResidual>
void add_as(const ResidualRun& run) {
  using Has = Present<kBias, kMask, kResidual>;
  using Bf16 = std::conditional_t<kMask, StoredBf16, StoredBf16Pairs>;
  if (run.dtype == DType::kBF16) return add_run<Bf16, Has>(run);
  if (run.dtype == DType::kF16) return add_run<StoredF16, Has>(run);
  return add_run<StoredF32, Has>(run);
}

void add(const ResidualRun& run) {
  using Run = void (*)(const ResidualRun&);
  static constexpr Run kRuns[8] = {
      &add_as<false, false, false>, &add_as<true, false, false>,
      &add_as<false, true, false>,  &add_as<true, true, false>,
      &add_as<false, false, true>,  &add_as<true, false, true>,
      &add_as<false, true, true>,   &add_as<true, true, true>,
  };
  kRuns[(run.bias != nullptr) + 2 * (run.mask != nullptr) +
        4 * (run.residual != nullptr)](run);
}

}  // namespace

const ResidualKernels* residual_table() {
  static constexpr ResidualKernels kTable = {ASSAY_ISA_NAME, &add};
  return &kTable;
}

#else

const ResidualKernels* residual_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(residual_table);

std::vector<const ResidualKernels*> simd_residual_tables() {
  ASSAY_COLLECT_TABLES(ResidualKernels, residual_table);
}

}  // namespace assay
#endif
