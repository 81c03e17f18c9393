// Softmax as plain loops, once for every way to form its sums.
#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/kernels/ref/plain_sum.h"
#include "assay/kernels/ref/ref_stored.h"
#include "assay/kernels/softmax.h"

namespace assay {
namespace {

double logit(const SoftmaxRow& row, DType dtype, const void* x,
             std::int64_t j) {
  if (row.mask != nullptr && row.mask[j] != 0)
    return static_cast<double>(kMaskedLogit);
  return static_cast<double>(row.scale) * ref::load(dtype, x, j);
}

template <InternalPrecision kPrecision, DType dtype>
float forward(const SoftmaxRow& row, const void* x, void* y) {
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t j = 0; j < row.visible; ++j)
    top = std::max(top, logit(row, dtype, x, j));
  if (row.has_extra) top = std::max(top, static_cast<double>(row.extra_logit));
  const auto term = [&](std::int64_t j) {
    return std::exp(logit(row, dtype, x, j) - top);
  };
  const double extra =
      row.has_extra ? std::exp(static_cast<double>(row.extra_logit) - top) : 0;
  const double sum = ref::sum_of<kPrecision>(dtype, row.visible, term) + extra;
  const bool all_masked =
      row.mask != nullptr && top == static_cast<double>(kMaskedLogit);
  for (std::int64_t j = 0; j < row.columns; ++j) {
    const bool zero = all_masked || j >= row.visible;
    ref::store(dtype, zero ? 0.0 : term(j) / sum, y, j);
  }
  return row.has_extra ? static_cast<float>(extra / sum) : 0.0f;
}

template <InternalPrecision kPrecision, DType dtype>
double backward(const SoftmaxRow& row, const void* dy, const void* y,
                void* dx) {
  const double dot =
      ref::sum_of<kPrecision>(dtype, row.visible, [&](std::int64_t j) {
        return ref::load(dtype, dy, j) * ref::load(dtype, y, j);
      });
  for (std::int64_t j = 0; j < row.columns; ++j) {
    const double slope = j < row.visible ? static_cast<double>(row.scale) *
                                               ref::load(dtype, y, j) *
                                               (ref::load(dtype, dy, j) - dot)
                                         : 0;
    ref::store(dtype, slope, dx, j);
  }
  return dot;
}

template <InternalPrecision kPrecision>
SoftmaxForwardFn pick_forward(DType dtype) {
  if (dtype == DType::kBF16) return &forward<kPrecision, DType::kBF16>;
  if (dtype == DType::kF16) return &forward<kPrecision, DType::kF16>;
  return &forward<kPrecision, DType::kF32>;
}

template <InternalPrecision kPrecision>
SoftmaxBackwardFn pick_backward(DType dtype) {
  if (dtype == DType::kBF16) return &backward<kPrecision, DType::kBF16>;
  if (dtype == DType::kF16) return &backward<kPrecision, DType::kF16>;
  return &backward<kPrecision, DType::kF32>;
}

template <InternalPrecision kPrecision>
const SoftmaxKernels& plain() {
  static constexpr SoftmaxKernels kTable = {"scalar", &pick_forward<kPrecision>,
                                            &pick_backward<kPrecision>};
  return kTable;
}

}  // namespace

const SoftmaxKernels& plain_softmax_kernels(InternalPrecision precision) {
  switch (precision) {
    case InternalPrecision::kWorking:
      return plain<InternalPrecision::kWorking>();
    case InternalPrecision::kF32:
      return plain<InternalPrecision::kF32>();
    case InternalPrecision::kCompensated:
      return plain<InternalPrecision::kCompensated>();
    case InternalPrecision::kPairwise:
      return plain<InternalPrecision::kPairwise>();
    case InternalPrecision::kF64:
      break;
  }
  return plain<InternalPrecision::kF64>();
}

}  // namespace assay
