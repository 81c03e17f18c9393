// Merging and scoring as plain loops in fp64, and the choice between all
// tables.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/kernels/moe.h"
#include "assay/kernels/ref/ref_top_k.h"
#include "assay/kernels/simd/simd_moe.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

template <DType kDType>
struct Rows {
  static void combine(const std::byte* const* rows, const float* weights,
                      std::int64_t count, std::int64_t n, bool,
                      std::byte* out) {
    for (std::int64_t h = 0; h < n; ++h) {
      double sum = 0;
      for (std::int64_t s = 0; s < count; ++s) {
        const double weight = weights ? static_cast<double>(weights[s]) : 1.0;
        sum += weight * load_as_double(kDType, rows[s], h);
      }
      store_from_double(kDType, sum, out, h);
    }
  }
  static void scale(const std::byte* in, float weight, std::int64_t n, bool,
                    std::byte* out) {
    for (std::int64_t h = 0; h < n; ++h)
      store_from_double(
          kDType, static_cast<double>(weight) * load_as_double(kDType, in, h),
          out, h);
  }
  static float dot(const std::byte* a, const std::byte* b, std::int64_t n) {
    double sum = 0;
    for (std::int64_t h = 0; h < n; ++h)
      sum += load_as_double(kDType, a, h) * load_as_double(kDType, b, h);
    return static_cast<float>(sum);
  }
  static constexpr MoeRowKernels kTable = {&combine, &scale, &dot};
};

void softmax(float* x, std::int64_t n) {
  double top = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; ++i)
    top = std::max(top, static_cast<double>(x[i]));
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += std::exp(static_cast<double>(x[i]) - top);
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(std::exp(static_cast<double>(x[i]) - top) / sum);
}

void sigmoid(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i)
    x[i] =
        static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(x[i]))));
}

void softplus_root(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double v = x[i];
    const double softplus =
        (v > 0 ? v : 0.0) + std::log1p(std::exp(-std::fabs(v)));
    x[i] = static_cast<float>(std::sqrt(v != v ? v : softplus));
  }
}

constexpr MoeKernels kScalar = {
    "scalar",
    {Rows<DType::kF32>::kTable, Rows<DType::kBF16>::kTable,
     Rows<DType::kF16>::kTable},
    &softmax,
    &sigmoid,
    &softplus_root,
    &ref_top_k,
};

const std::vector<const MoeKernels*>& tables() {
  static const std::vector<const MoeKernels*> all = [] {
    std::vector<const MoeKernels*> found = simd_moe_tables();
    found.push_back(&kScalar);
    return found;
  }();
  return all;
}

}  // namespace

std::span<const MoeKernels* const> all_moe_kernels() { return tables(); }

const MoeKernels& moe_kernels(Device device) {
  return choose_family<MoeKernels>(tables(), device);
}

}  // namespace assay
