#include "assay/kernels/ref/ref_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "assay/kernels/family.h"
#include "assay/kernels/simd/simd_summary.h"
#include "assay/numerics/element.h"

namespace assay {

void ref::summarise(DType dtype, const void* x, std::int64_t n,
                    SummarySums& out) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  out = SummarySums{};
  out.min = kInf;
  out.max = -kInf;
  for (std::int64_t i = 0; i < n; ++i) {
    const double value =
        load_as_double(dtype, static_cast<const std::byte*>(x), i);
    if (!std::isfinite(value)) {
      ++(std::isnan(value) ? out.nan
         : value > 0       ? out.positive_inf
                           : out.negative_inf);
      continue;
    }
    const int lane = static_cast<int>(i % kSummaryLanes);
    out.sum[lane] += value;
    out.squares[lane] = std::fma(value, value, out.squares[lane]);
    out.min = std::min(out.min, value);
    out.max = std::max(out.max, value);
    out.zeros += value == 0;
  }
  out.min += 0.0;  // -0 becomes +0
  out.max += 0.0;
}

namespace {
constexpr SummaryKernels kScalar = {"scalar", &ref::summarise};
}  // namespace

std::span<const SummaryKernels* const> all_summary_kernels() {
  static const std::vector<const SummaryKernels*> all = [] {
    auto tables = simd_summary_tables();
    tables.push_back(&kScalar);
    return tables;
  }();
  return all;
}

const SummaryKernels& summary_kernels(Device device) {
  return choose_family(all_summary_kernels(), device);
}

}  // namespace assay
