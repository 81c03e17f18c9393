// The norms as plain loops, once for every way to form their sums.
#include <cmath>

#include "assay/kernels/norm.h"
#include "assay/kernels/ref/plain_sum.h"
#include "assay/kernels/ref/ref_stored.h"

namespace assay {
namespace {

ColumnOrder plain_order(DType, DType) { return ColumnOrder::kPlain; }

double add_residual(const NormForwardArgs& a, std::int64_t at) {
  const double sum =
      ref::load(a.dtype, a.x, at) + ref::load(a.dtype, a.residual, at);
  ref::store(a.dtype, sum, a.sum, at);
  return ref::load(a.dtype, a.sum, at);
}

// mean and rsigma of one row stay in fp64 for z and are stored as fp32.
template <InternalPrecision kPrecision>
void forward(const NormForwardArgs& a, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = a.columns;
  for (std::int64_t r = begin; r < end; ++r) {
    const void* x = a.residual == nullptr ? a.x : a.sum;
    if (a.residual != nullptr)
      for (std::int64_t j = 0; j < n; ++j) add_residual(a, r * n + j);
    const auto value = [&](std::int64_t j) {
      return ref::load(a.dtype, x, r * n + j);
    };
    double mean = 0;
    if (a.centred) {
      mean = ref::sum_of<kPrecision>(a.dtype, n, value) / a.divisor;
      a.mean[r] = static_cast<float>(mean);
    }
    const double square =
        ref::sum_of<kPrecision>(a.dtype, n,
                                [&](std::int64_t j) {
                                  return (value(j) - mean) * (value(j) - mean);
                                }) /
        a.divisor;
    const double rsigma = 1 / std::sqrt(square + static_cast<double>(a.eps));
    a.rsigma[r] = static_cast<float>(rsigma);
    for (std::int64_t j = 0; j < n; ++j) {
      const double y = (value(j) - mean) * rsigma;
      const double beta = a.beta == nullptr ? 0 : a.beta[j];
      ref::store(a.out, y * static_cast<double>(a.gamma[j]) + beta, a.z,
                 (r - begin) * n + j);
    }
  }
}

// (x - mean) rsigma of an element, from the stored statistics.
double normalised(const NormBackwardArgs& a, std::int64_t r, std::int64_t j) {
  const double mean = a.centred ? a.mean[r] : 0;
  return (ref::load(a.dtype, a.x, r * a.columns + j) - mean) *
         static_cast<double>(a.rsigma[r]);
}

template <InternalPrecision kPrecision>
void backward(const NormBackwardArgs& a, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = a.columns;
  for (std::int64_t r = begin; r < end; ++r) {
    const auto t = [&](std::int64_t j) {
      return ref::load(a.dtype, a.dz, r * n + j) *
             static_cast<double>(a.gamma[j]);
    };
    const auto ty = [&](std::int64_t j) { return t(j) * normalised(a, r, j); };
    const double slope = ref::sum_of<kPrecision>(a.dtype, n, ty) / a.divisor;
    const double offset =
        a.centred ? ref::sum_of<kPrecision>(a.dtype, n, t) / a.divisor : 0;
    for (std::int64_t j = 0; j < n; ++j) {
      const double along = normalised(a, r, j) * slope + offset;
      double dx = static_cast<double>(a.rsigma[r]) * (t(j) - along);
      if (a.add != nullptr) dx += ref::load(a.dtype, a.add, r * n + j);
      ref::store(a.dtype, dx, a.dx, r * n + j);
    }
  }
}

template <InternalPrecision kPrecision>
void param_grads(const NormBackwardArgs& a, std::int64_t begin,
                 std::int64_t end, double* dgamma, double* dbeta) {
  for (std::int64_t j = 0; j < a.columns; ++j) {
    const auto dz = [&](std::int64_t i) {
      return ref::load(a.dtype, a.dz, (begin + i) * a.columns + j);
    };
    dgamma[j] += ref::sum_of<kPrecision>(
        a.dtype, end - begin,
        [&](std::int64_t i) { return dz(i) * normalised(a, begin + i, j); });
    if (dbeta != nullptr)
      dbeta[j] += ref::sum_of<kPrecision>(a.dtype, end - begin, dz);
  }
}

template <InternalPrecision kPrecision>
const NormKernels& plain() {
  static constexpr NormKernels kTable = {
      "scalar", &plain_order, &forward<kPrecision>, &backward<kPrecision>,
      &param_grads<kPrecision>};
  return kTable;
}

}  // namespace

const NormKernels& plain_norm_kernels(InternalPrecision precision) {
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
