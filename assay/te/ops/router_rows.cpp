#include "assay/te/ops/router_rows.h"

#include <algorithm>
#include <limits>

#include "assay/te/precision.h"

namespace assay::te {
namespace {

template <typename Term>
double sum_of(InternalPrecision precision, DType dtype, std::int64_t n,
              Term term) {
  return with_accumulator(precision, dtype, [&](auto make) {
    auto sum = make();
    using Real = typename decltype(sum)::Real;
    for (std::int64_t i = 0; i < n; ++i) sum.add(static_cast<Real>(term(i)));
    return static_cast<double>(sum.total());
  });
}

}  // namespace

InternalPrecision router_precision(InternalPrecision asked, Device device) {
  const InternalPrecision precision = effective_precision("router", asked);
  if (device == Device::kReference && precision == InternalPrecision::kF32)
    return InternalPrecision::kF64;
  return precision;
}

TokenScorer::TokenScorer(ScoreFunction function, InternalPrecision precision,
                         DType dtype, std::int64_t experts, Device device)
    : function_(function),
      precision_(precision),
      dtype_(dtype),
      experts_(experts),
      kernels_(moe_kernels(device)),
      convert_(convert_kernels(device)),
      scores_(static_cast<std::size_t>(experts + kScorePadding)),
      keys_(static_cast<std::size_t>(experts + kScorePadding)),
      indices_(static_cast<std::size_t>(experts)) {}

void TokenScorer::load(const std::byte* row) {
  convert_.widen[float_width(dtype_)](row, experts_, scores_.data());
}

void TokenScorer::score(std::int64_t n) {
  switch (function_) {
    case ScoreFunction::kSigmoid:
      return kernels_.sigmoid(scores_.data(), n);
    case ScoreFunction::kSqrtSoftplus:
      return kernels_.softplus_root(scores_.data(), n);
    case ScoreFunction::kSoftmax:
      break;
  }
  if (precision_ == InternalPrecision::kF32)
    kernels_.softmax(scores_.data(), n);
  else
    plain_softmax(n);
}

void TokenScorer::plain_softmax(std::int64_t n) {
  float* x = scores_.data();
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i)
    top = std::max(top, static_cast<double>(x[i]));
  const auto e = [&](std::int64_t i) {
    return std::exp(static_cast<double>(x[i]) - top);
  };
  const double total = sum_of(precision_, dtype_, n, e);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(e(i) / total);
}

const std::int32_t* TokenScorer::best(const float* values, std::int64_t n,
                                      std::int64_t k) {
  kernels_.top_k(values, n, k, keys_.data(), indices_.data());
  return indices_.data();
}

double TokenScorer::sum(const float* values, std::int64_t n) const {
  return sum_of(precision_, dtype_, n,
                [&](std::int64_t i) { return values[i]; });
}

void GradientRow::load(const Tensor& tensor, std::int64_t t) {
  const auto n = static_cast<std::int64_t>(g.size());
  const std::int64_t bytes = n * traits(tensor.dtype()).bits / 8;
  convert_.widen[float_width(tensor.dtype())](
      tensor.data<std::byte>() + t * bytes, n, row_.data());
  std::copy(row_.begin(), row_.end(), g.begin());
}

void GradientRow::store(Tensor& tensor, std::int64_t t) {
  const auto n = static_cast<std::int64_t>(g.size());
  const std::int64_t bytes = n * traits(tensor.dtype()).bits / 8;
  for (std::size_t i = 0; i < g.size(); ++i) row_[i] = static_cast<float>(g[i]);
  convert_.narrow[float_width(tensor.dtype())](
      row_.data(), n, tensor.mutable_data() + t * bytes);
}

void softmax_gradient(const float* y, const std::uint8_t* used, std::int64_t n,
                      InternalPrecision precision, DType dtype, double* g) {
  const double dot = sum_of(precision, dtype, n, [&](std::int64_t i) {
    return used == nullptr || used[i] ? g[i] * static_cast<double>(y[i]) : 0.0;
  });
  for (std::int64_t i = 0; i < n; ++i)
    g[i] = used == nullptr || used[i] ? static_cast<double>(y[i]) * (g[i] - dot)
                                      : 0.0;
}

void norm_gradient(const float* y, const std::uint8_t* used, std::int64_t n,
                   InternalPrecision precision, DType dtype, double* g) {
  const auto counts = [&](std::int64_t i) {
    return used == nullptr || used[i] != 0;
  };
  const double total =
      kNormEpsilon + sum_of(precision, dtype, n, [&](std::int64_t i) {
        return counts(i) ? static_cast<double>(y[i]) : 0.0;
      });
  const double dot = sum_of(precision, dtype, n, [&](std::int64_t i) {
    return counts(i) ? g[i] * static_cast<double>(y[i]) : 0.0;
  });
  for (std::int64_t i = 0; i < n; ++i)
    g[i] = counts(i) ? g[i] / total - dot / (total * total) : 0.0;
}

void activation_gradient(ScoreFunction function, const float* saved,
                         std::int64_t n, double* g) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = saved[i];
    if (function == ScoreFunction::kSigmoid) {
      g[i] *= x * (1 - x);
      continue;
    }
    if (g[i] == 0) continue;  // not routed: no division for nothing
    // sigmoid(x) / (2 y), y = sqrt(softplus(x)).
    const double e = std::exp(-std::fabs(x));
    const double sigmoid = (x < 0 ? e : 1.0) / (1.0 + e);
    const double root = std::sqrt((x > 0 ? x : 0.0) + std::log1p(e));
    g[i] *= sigmoid / (2 * root + kNormEpsilon);
  }
}

void activation_values(ScoreFunction function, const float* saved,
                       std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = saved[i];
    y[i] = saved[i];
    if (function == ScoreFunction::kSqrtSoftplus)
      y[i] = static_cast<float>(
          std::sqrt((x > 0 ? x : 0.0) + std::log1p(std::exp(-std::fabs(x)))));
  }
}

}  // namespace assay::te
