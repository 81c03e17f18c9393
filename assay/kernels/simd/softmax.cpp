// Compiles softmax once for every instruction set and hands out its tables.
#include "assay/kernels/softmax.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/softmax.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "assay/kernels/simd/simd_softmax.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/step-inl.h"
#include "assay/kernels/simd/exp-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {

// The logits of the masked columns of a step become kMaskedLogit; mask bytes
// in the order of the row.
HWY_INLINE FVec hide(FVec logit, hn::Vec<hn::RebindToUnsigned<FTag>> mask) {
  const FTag d;
  const auto masked = hn::Ne(mask, hn::Zero(hn::RebindToUnsigned<FTag>()));
  return hn::IfThenElse(hn::RebindMask(d, masked), constant(kMaskedLogit),
                        logit);
}

template <class Load>
HWY_INLINE void hide_step(const std::uint8_t* mask, Step& logits) {
  const hn::RebindToUnsigned<FTag> du;
  if constexpr (std::is_same_v<Load, StoredBf16Pairs>) {
    // Even columns are the low bytes of words, odd ones the high bytes.
    constexpr int kHalf = kStepVecs / 2;
    const hn::Rebind<std::uint16_t, FTag> d16;
    const auto low = hn::Set(d16, 0x00ff);
    for (int i = 0; i < kHalf; ++i) {
      const auto words = hn::LoadU(d16, reinterpret_cast<const std::uint16_t*>(
                                            mask + 2 * i * float_lanes()));
      logits.v[i] = hide(logits.v[i], hn::PromoteTo(du, hn::And(words, low)));
      logits.v[kHalf + i] = hide(logits.v[kHalf + i],
                                 hn::PromoteTo(du, hn::ShiftRight<8>(words)));
    }
  } else {
    const hn::Rebind<std::uint8_t, FTag> d8;
    for (int i = 0; i < kStepVecs; ++i)
      logits.v[i] =
          hide(logits.v[i],
               hn::PromoteTo(du, hn::LoadU(d8, mask + i * float_lanes())));
  }
}

// The logits of a step that begins at column j; -inf beyond the row.
template <class Load>
struct Logits {
  const typename Load::T* x;
  const SoftmaxRow& row;
  FVec scale;

  HWY_INLINE Step whole(std::int64_t j) const {
    Step s = load_step<Load>(x + j);
    for (FVec& v : s.v) v = hn::Mul(v, scale);
    if (row.mask != nullptr) hide_step<Load>(row.mask + j, s);
    return s;
  }
  HWY_INLINE Step last(std::int64_t j) const {
    const std::int64_t rest = row.visible - j;
    Step s = load_rest<Load>(x + j, rest);
    for (FVec& v : s.v) v = hn::Mul(v, scale);
    if (row.mask != nullptr) {
      std::uint8_t mask[kStepSize] = {};
      std::memcpy(mask, row.mask + j, static_cast<std::size_t>(rest));
      hide_step<Load>(mask, s);
    }
    const Step there = present<Load>(rest);
    const auto nothing = constant(-std::numeric_limits<float>::infinity());
    for (int i = 0; i < kStepVecs; ++i)
      s.v[i] =
          hn::IfThenElse(hn::Gt(there.v[i], constant(0.0f)), s.v[i], nothing);
    return s;
  }
};

// Whether a NaN is passed over depends on the set; its exponential brings it
// back.
HWY_INLINE void raise(Step& top, const Step& s) {
  for (int i = 0; i < kStepVecs; ++i) top.v[i] = hn::Max(s.v[i], top.v[i]);
}

template <class Load>
float maximum(const Logits<Load>& logits, std::int64_t n) {
  Step top;
  for (FVec& v : top.v) v = constant(-std::numeric_limits<float>::infinity());
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(logits.x + j, kStepSize);
    raise(top, logits.whole(j));
  }
  if (j < n) raise(top, logits.last(j));
  FVec best = top.v[0];
  for (int i = 1; i < kStepVecs; ++i) best = hn::Max(best, top.v[i]);
  return hn::GetLane(hn::MaxOfLanes(FTag(), best));
}

// Turns a step of logits into terms, which go to `terms` and into `sum`.
HWY_INLINE void exponentials(Step s, FVec top, float* terms, Step& sum) {
  for (int i = 0; i < kStepVecs; ++i) {
    s.v[i] = exp_to_88(hn::Sub(s.v[i], top));
    sum.v[i] = hn::Add(sum.v[i], s.v[i]);
  }
  store_step<StoredF32>(s, terms);
}

HWY_INLINE Step times(Step s, FVec factor) {
  for (FVec& v : s.v) v = hn::Mul(v, factor);
  return s;
}

template <class Load>
void write_terms(const float* terms, std::int64_t n, FVec factor,
                 typename Load::T* y) {
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(y + j, kStepSize);
    store_step<Load>(times(load_step<StoredF32>(terms + j), factor), y + j);
  }
  if (j < n)
    store_rest<Load>(times(load_step<StoredF32>(terms + j), factor), y + j,
                     n - j);
}

template <class In>
float forward(const SoftmaxRow& row, const void* x_data, void* y_data) {
  using Load = typename Paired<In, In>::Load;
  using T = typename In::T;
  const std::int64_t n = row.visible;
  T* y = static_cast<T*>(y_data);
  std::fill(y + n, y + row.columns, T{0});
  const Logits<Load> logits{static_cast<const T*>(x_data), row,
                            constant(row.scale)};
  float top = maximum(logits, n);
  if (row.has_extra) top = std::max(top, row.extra_logit);
  if (row.mask != nullptr && top == kMaskedLogit) {
    std::fill(y, y + n, T{0});
    return 0.0f;
  }
  float* terms = softmax_scratch(static_cast<std::size_t>(n + kStepSize));
  Step sums = zero_step();
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize)
    exponentials(logits.whole(j), constant(top), terms + j, sums);
  if (j < n) exponentials(logits.last(j), constant(top), terms + j, sums);
  float extra = 0;
  if (row.has_extra)
    extra = hn::GetLane(exp_to_88(constant(row.extra_logit - top)));
  const float factor = 1.0f / (sum_step(sums) + extra);
  write_terms<Load>(terms, n, constant(factor), y);
  return row.has_extra ? extra * factor : 0.0f;
}

template <class In>
double backward(const SoftmaxRow& row, const void* dy_data, const void* y_data,
                void* dx_data) {
  using Load = typename Paired<In, In>::Load;
  using T = typename In::T;
  const T *dy = static_cast<const T*>(dy_data),
          *y = static_cast<const T*>(y_data);
  T* dx = static_cast<T*>(dx_data);
  const std::int64_t n = row.visible;
  std::fill(dx + n, dx + row.columns, T{0});
  Step sums = zero_step();
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(dy + j, kStepSize);
    fetch_ahead(y + j, kStepSize);
    const Step g = load_step<Load>(dy + j), p = load_step<Load>(y + j);
    for (int i = 0; i < kStepVecs; ++i)
      sums.v[i] = hn::MulAdd(g.v[i], p.v[i], sums.v[i]);
  }
  if (j < n) {
    const Step g = load_rest<Load>(dy + j, n - j),
               p = load_rest<Load>(y + j, n - j);
    for (int i = 0; i < kStepVecs; ++i)
      sums.v[i] = hn::MulAdd(g.v[i], p.v[i], sums.v[i]);
  }
  const float dot = sum_step(sums);
  const auto d = constant(dot), scale = constant(row.scale);
  const auto slope = [&](const Step& g, Step p) HWY_ATTR {
    for (int i = 0; i < kStepVecs; ++i)
      p.v[i] = hn::Mul(hn::Mul(scale, p.v[i]), hn::Sub(g.v[i], d));
    return p;
  };
  for (j = 0; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(dx + j, kStepSize);
    store_step<Load>(slope(load_step<Load>(dy + j), load_step<Load>(y + j)),
                     dx + j);
  }
  if (j < n)
    store_rest<Load>(
        slope(load_rest<Load>(dy + j, n - j), load_rest<Load>(y + j, n - j)),
        dx + j, n - j);
  return static_cast<double>(dot);
}

SoftmaxForwardFn pick_forward(DType dtype) {
  if (dtype == DType::kBF16) return &forward<StoredBf16>;
  return dtype == DType::kF16 ? &forward<StoredF16> : &forward<StoredF32>;
}

SoftmaxBackwardFn pick_backward(DType dtype) {
  if (dtype == DType::kBF16) return &backward<StoredBf16>;
  return dtype == DType::kF16 ? &backward<StoredF16> : &backward<StoredF32>;
}

}  // namespace

const SoftmaxKernels* softmax_table() {
  static constexpr SoftmaxKernels kTable = {ASSAY_ISA_NAME, &pick_forward,
                                            &pick_backward};
  return &kTable;
}

#else

const SoftmaxKernels* softmax_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(softmax_table);

std::vector<const SoftmaxKernels*> simd_softmax_tables() {
  ASSAY_COLLECT_TABLES(SoftmaxKernels, softmax_table);
}

float* softmax_scratch(std::size_t count) {
  thread_local std::vector<float> scratch;
  if (scratch.size() < count) scratch.resize(count);
  return scratch.data();
}

}  // namespace assay
#endif
