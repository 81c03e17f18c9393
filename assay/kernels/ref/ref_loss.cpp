// Rows of logits as plain loops in fp64, and the choice between all tables.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/kernels/loss.h"
#include "assay/kernels/simd/simd_loss.h"
#include "assay/numerics/element.h"

namespace assay {
namespace {

template <DType kDType>
struct Rows {
  static LogitStats stats(const std::byte* logits, std::int64_t n,
                          bool with_sum, float* exps) {
    double top = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < n; ++i)
      top = std::max(top, load_as_double(kDType, logits, i));
    double sum_exp = 0, sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = load_as_double(kDType, logits, i);
      const double e = std::exp(x - top);
      sum_exp += e;
      if (with_sum) sum += x;
      if (exps != nullptr) exps[i] = static_cast<float>(e);
    }
    return {static_cast<float>(top), static_cast<float>(sum_exp),
            static_cast<float>(sum)};
  }
  static void gradient(const std::byte* logits, std::int64_t n, float max,
                       float factor, float offset, std::byte* out) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = load_as_double(kDType, logits, i);
      const double e = std::exp(x - static_cast<double>(max));
      store_from_double(
          kDType, e * static_cast<double>(factor) - static_cast<double>(offset),
          out, i);
    }
  }
  static void scaled(const float* exps, std::int64_t n, float factor,
                     float offset, std::byte* out) {
    for (std::int64_t i = 0; i < n; ++i)
      store_from_double(
          kDType,
          static_cast<double>(exps[i]) * static_cast<double>(factor) -
              static_cast<double>(offset),
          out, i);
  }
  static constexpr LossRowKernels kTable = {&stats, &gradient, &scaled};
};

constexpr LossKernels kScalar = {
    "scalar",
    {Rows<DType::kF32>::kTable, Rows<DType::kBF16>::kTable,
     Rows<DType::kF16>::kTable},
};

const std::vector<const LossKernels*>& tables() {
  static const std::vector<const LossKernels*> all = [] {
    std::vector<const LossKernels*> found = simd_loss_tables();
    found.push_back(&kScalar);
    return found;
  }();
  return all;
}

}  // namespace

std::span<const LossKernels* const> all_loss_kernels() { return tables(); }

const LossKernels& loss_kernels(Device device) {
  return choose_family<LossKernels>(tables(), device);
}

}  // namespace assay
