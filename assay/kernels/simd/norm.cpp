// Compiles the norms once for every instruction set and hands out their
// tables.
#include "assay/kernels/norm.h"

#include "assay/kernels/simd/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "assay/kernels/simd/norm.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "assay/kernels/simd/simd_norm.h"

#if ASSAY_VECTOR_TARGET
// In this order: each part uses the ones before it.
// clang-format off
#include "assay/kernels/simd/stored-inl.h"
#include "assay/kernels/simd/step-inl.h"
// clang-format on
#endif

HWY_BEFORE_NAMESPACE();
namespace assay {
namespace HWY_NAMESPACE {

#if ASSAY_VECTOR_TARGET
namespace {

template <class Load>
float row_sum(const typename Load::T* x, std::int64_t n) {
  Step sum = zero_step();
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(x + j, kStepSize);
    const Step s = load_step<Load>(x + j);
    for (int i = 0; i < kStepVecs; ++i) sum.v[i] = hn::Add(sum.v[i], s.v[i]);
  }
  if (j < n) {
    const Step s = load_rest<Load>(x + j, n - j);
    for (int i = 0; i < kStepVecs; ++i) sum.v[i] = hn::Add(sum.v[i], s.v[i]);
  }
  return sum_step(sum);
}

// The sum of (x - mean)^2.
template <class Load>
float row_squares(const typename Load::T* x, std::int64_t n, float mean) {
  const auto m = constant(mean);
  Step sum = zero_step();
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(x + j, kStepSize);
    const Step s = load_step<Load>(x + j);
    for (int i = 0; i < kStepVecs; ++i) {
      const auto d = hn::Sub(s.v[i], m);
      sum.v[i] = hn::MulAdd(d, d, sum.v[i]);
    }
  }
  if (j < n) {
    const Step s = load_rest<Load>(x + j, n - j), one = present<Load>(n - j);
    for (int i = 0; i < kStepVecs; ++i) {
      const auto d = hn::Mul(hn::Sub(s.v[i], m), one.v[i]);
      sum.v[i] = hn::MulAdd(d, d, sum.v[i]);
    }
  }
  return sum_step(sum);
}

// sum = round(x + residual)
template <class Load>
void add_rows(const typename Load::T* x, const typename Load::T* residual,
              std::int64_t n, typename Load::T* sum) {
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    Step a = load_step<Load>(x + j);
    const Step b = load_step<Load>(residual + j);
    for (int i = 0; i < kStepVecs; ++i) a.v[i] = hn::Add(a.v[i], b.v[i]);
    store_step<Load>(a, sum + j);
  }
  if (j == n) return;
  Step a = load_rest<Load>(x + j, n - j);
  const Step b = load_rest<Load>(residual + j, n - j);
  for (int i = 0; i < kStepVecs; ++i) a.v[i] = hn::Add(a.v[i], b.v[i]);
  store_rest<Load>(a, sum + j, n - j);
}

struct Affine {
  FVec mean, rsigma;
  const float* gamma;
  const float* beta;

  HWY_INLINE Step operator()(Step s, std::int64_t j) const {
    for (int i = 0; i < kStepVecs; ++i) {
      const auto place = j + i * float_lanes();
      const auto y = hn::Mul(hn::Sub(s.v[i], mean), rsigma);
      const auto g = hn::LoadU(FTag(), gamma + place);
      s.v[i] = beta == nullptr
                   ? hn::Mul(y, g)
                   : hn::MulAdd(y, g, hn::LoadU(FTag(), beta + place));
    }
    return s;
  }
};

template <class Load, class Store>
void normalise_row(const typename Load::T* x, std::int64_t n,
                   const Affine& affine, typename Store::T* z) {
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(z + j, kStepSize);
    store_step<Store>(affine(load_step<Load>(x + j), j), z + j);
  }
  if (j < n)
    store_rest<Store>(affine(load_rest<Load>(x + j, n - j), j), z + j, n - j);
}

template <class In, class Out>
void forward_rows(const NormForwardArgs& a, std::int64_t begin,
                  std::int64_t end) {
  using Load = typename Paired<In, Out>::Load;
  using Store = typename Paired<In, Out>::Store;
  using T = typename In::T;
  const std::int64_t n = a.columns;
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(a.x) + r * n;
    if (a.residual != nullptr) {
      T* sum = static_cast<T*>(a.sum) + r * n;
      add_rows<Load>(x, static_cast<const T*>(a.residual) + r * n, n, sum);
      x = sum;
    }
    float mean = 0;
    if (a.centred) {
      mean = static_cast<float>(row_sum<Load>(x, n) / a.divisor);
      a.mean[r] = mean;
    }
    const double square = row_squares<Load>(x, n, mean) / a.divisor;
    a.rsigma[r] =
        static_cast<float>(1 / std::sqrt(square + static_cast<double>(a.eps)));
    normalise_row<Load, Store>(
        x, n, {constant(mean), constant(a.rsigma[r]), a.gamma, a.beta},
        static_cast<typename Out::T*>(a.z) + (r - begin) * n);
  }
}

// What a row of the backward needs again and again.
template <class Load>
struct BackwardRow {
  const typename Load::T *x, *dz, *add;
  const float* gamma;
  FVec mean, rsigma;
};

struct GradSums {
  Step product;  // t (x - mean)
  Step plain;    // t
};

template <class Load>
HWY_INLINE void add_grads(Step x, Step dz, const BackwardRow<Load>& row,
                          std::int64_t j, GradSums& sums) {
  for (int i = 0; i < kStepVecs; ++i) {
    const auto g = hn::LoadU(FTag(), row.gamma + j + i * float_lanes());
    const auto t = hn::Mul(dz.v[i], g);
    const auto d = hn::Sub(x.v[i], row.mean);
    sums.product.v[i] = hn::MulAdd(t, d, sums.product.v[i]);
    sums.plain.v[i] = hn::Add(t, sums.plain.v[i]);
  }
}

// rsigma (t - (y slope + offset))
template <class Load>
HWY_INLINE Step input_grad(Step x, Step dz, const BackwardRow<Load>& row,
                           std::int64_t j, FVec slope, FVec offset) {
  Step dx;
  for (int i = 0; i < kStepVecs; ++i) {
    const auto g = hn::LoadU(FTag(), row.gamma + j + i * float_lanes());
    const auto t = hn::Mul(dz.v[i], g);
    const auto y = hn::Mul(hn::Sub(x.v[i], row.mean), row.rsigma);
    const auto along = hn::MulAdd(y, slope, offset);
    dx.v[i] = hn::Mul(row.rsigma, hn::Sub(t, along));
  }
  return dx;
}

HWY_INLINE Step plus(Step a, const Step& b) {
  for (int i = 0; i < kStepVecs; ++i) a.v[i] = hn::Add(a.v[i], b.v[i]);
  return a;
}

template <class Load>
GradSums row_grad_sums(const BackwardRow<Load>& row, std::int64_t n) {
  GradSums sums{zero_step(), zero_step()};
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(row.x + j, kStepSize);
    fetch_ahead(row.dz + j, kStepSize);
    add_grads(load_step<Load>(row.x + j), load_step<Load>(row.dz + j), row, j,
              sums);
  }
  if (j < n)  // gradients beyond the row are zeros
    add_grads(load_rest<Load>(row.x + j, n - j),
              load_rest<Load>(row.dz + j, n - j), row, j, sums);
  return sums;
}

template <class Load>
void write_input_grads(const BackwardRow<Load>& row, std::int64_t n, FVec slope,
                       FVec offset, typename Load::T* dx) {
  std::int64_t j = 0;
  for (; j + kStepSize <= n; j += kStepSize) {
    fetch_ahead(dx + j, kStepSize);
    Step s = input_grad(load_step<Load>(row.x + j), load_step<Load>(row.dz + j),
                        row, j, slope, offset);
    if (row.add != nullptr) s = plus(s, load_step<Load>(row.add + j));
    store_step<Load>(s, dx + j);
  }
  if (j == n) return;
  Step s =
      input_grad(load_rest<Load>(row.x + j, n - j),
                 load_rest<Load>(row.dz + j, n - j), row, j, slope, offset);
  if (row.add != nullptr) s = plus(s, load_rest<Load>(row.add + j, n - j));
  store_rest<Load>(s, dx + j, n - j);
}

template <class In>
void backward_rows(const NormBackwardArgs& a, std::int64_t begin,
                   std::int64_t end) {
  using Load = typename Paired<In, In>::Load;
  using T = typename In::T;
  const std::int64_t n = a.columns;
  const T* add = static_cast<const T*>(a.add);
  for (std::int64_t r = begin; r < end; ++r) {
    const float mean = a.centred ? a.mean[r] : 0.0f;
    const BackwardRow<Load> row{static_cast<const T*>(a.x) + r * n,
                                static_cast<const T*>(a.dz) + r * n,
                                add == nullptr ? nullptr : add + r * n,
                                a.gamma,
                                constant(mean),
                                constant(a.rsigma[r])};
    const GradSums sums = row_grad_sums(row, n);
    const double slope = static_cast<double>(sum_step(sums.product)) *
                         static_cast<double>(a.rsigma[r]) / a.divisor;
    const double offset =
        a.centred ? static_cast<double>(sum_step(sums.plain)) / a.divisor : 0;
    write_input_grads(row, n, constant(static_cast<float>(slope)),
                      constant(static_cast<float>(offset)),
                      static_cast<T*>(a.dx) + r * n);
  }
}

// sums[j ...] += the lanes of s
HWY_INLINE void add_to(const Step& s, double* sums) {
  const FTag d;
  const hn::Half<FTag> half;
  const hn::Repartition<double, FTag> dd;
  for (int i = 0; i < kStepVecs; ++i) {
    double* at = sums + i * float_lanes();
    double* upper = at + hn::Lanes(dd);
    const auto low = hn::PromoteTo(dd, hn::LowerHalf(half, s.v[i]));
    const auto high = hn::PromoteTo(dd, hn::UpperHalf(half, s.v[i]));
    hn::StoreU(hn::Add(hn::LoadU(dd, at), low), dd, at);
    hn::StoreU(hn::Add(hn::LoadU(dd, upper), high), dd, upper);
  }
}

inline constexpr std::int64_t kGradRows = 16;

// One step of columns over at most kGradRows rows.
template <class Load, bool kWhole>
HWY_INLINE void grad_step(const NormBackwardArgs& a, std::int64_t begin,
                          std::int64_t end, std::int64_t j, double* dgamma,
                          double* dbeta) {
  using T = typename Load::T;
  const std::int64_t n = a.columns;
  Step gamma = zero_step(), beta = zero_step();
  for (std::int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(a.x) + r * n + j;
    const T* dz = static_cast<const T*>(a.dz) + r * n + j;
    const Step xs = kWhole ? load_step<Load>(x) : load_rest<Load>(x, n - j);
    const Step gs = kWhole ? load_step<Load>(dz) : load_rest<Load>(dz, n - j);
    const auto mean = constant(a.centred ? a.mean[r] : 0.0f);
    const auto rsigma = constant(a.rsigma[r]);
    for (int i = 0; i < kStepVecs; ++i) {
      const auto y = hn::Mul(hn::Sub(xs.v[i], mean), rsigma);
      gamma.v[i] = hn::MulAdd(gs.v[i], y, gamma.v[i]);
      beta.v[i] = hn::Add(gs.v[i], beta.v[i]);
    }
  }
  add_to(gamma, dgamma + j);
  if (dbeta != nullptr) add_to(beta, dbeta + j);
}

template <class In>
void param_grad_rows(const NormBackwardArgs& a, std::int64_t begin,
                     std::int64_t end, double* dgamma, double* dbeta) {
  using Load = typename Paired<In, In>::Load;
  for (std::int64_t r = begin; r < end; r += kGradRows) {
    const std::int64_t last = std::min(end, r + kGradRows);
    std::int64_t j = 0;
    for (; j + kStepSize <= a.columns; j += kStepSize)
      grad_step<Load, true>(a, r, last, j, dgamma, dbeta);
    if (j < a.columns) grad_step<Load, false>(a, r, last, j, dgamma, dbeta);
  }
}

void forward(const NormForwardArgs& a, std::int64_t begin, std::int64_t end) {
  if (a.dtype == DType::kF32)
    return forward_rows<StoredF32, StoredF32>(a, begin, end);
  if (a.dtype == DType::kBF16)
    return a.out == a.dtype
               ? forward_rows<StoredBf16, StoredBf16>(a, begin, end)
               : forward_rows<StoredBf16, StoredF32>(a, begin, end);
  return a.out == a.dtype ? forward_rows<StoredF16, StoredF16>(a, begin, end)
                          : forward_rows<StoredF16, StoredF32>(a, begin, end);
}

void backward(const NormBackwardArgs& a, std::int64_t begin, std::int64_t end) {
  if (a.dtype == DType::kF32) return backward_rows<StoredF32>(a, begin, end);
  if (a.dtype == DType::kBF16) return backward_rows<StoredBf16>(a, begin, end);
  return backward_rows<StoredF16>(a, begin, end);
}

void param_grads(const NormBackwardArgs& a, std::int64_t begin,
                 std::int64_t end, double* dgamma, double* dbeta) {
  if (a.dtype == DType::kF32)
    return param_grad_rows<StoredF32>(a, begin, end, dgamma, dbeta);
  if (a.dtype == DType::kBF16)
    return param_grad_rows<StoredBf16>(a, begin, end, dgamma, dbeta);
  return param_grad_rows<StoredF16>(a, begin, end, dgamma, dbeta);
}

ColumnOrder order(DType dtype, DType out) {
  return dtype == DType::kBF16 && out == dtype ? ColumnOrder::kPaired
                                               : ColumnOrder::kPlain;
}

}  // namespace

const NormKernels* norm_table() {
  static constexpr NormKernels kTable = {ASSAY_ISA_NAME, &order, &forward,
                                         &backward, &param_grads};
  return &kTable;
}

#else

const NormKernels* norm_table() { return nullptr; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace assay
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace assay {
HWY_EXPORT(norm_table);

std::vector<const NormKernels*> simd_norm_tables() {
  ASSAY_COLLECT_TABLES(NormKernels, norm_table);
}

}  // namespace assay
#endif
