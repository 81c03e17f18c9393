#include "assay/te/ops/gemm_bias_grad.h"

#include <algorithm>

#include "assay/base/parallel.h"
#include "assay/kernels/decode.h"
#include "assay/kernels/gemm_value.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

constexpr std::int64_t kColumns = 256;

// Outers [begin, begin + n) of a view whose outers are contiguous.
void fast_sums(const GemmView& view, std::int64_t begin, std::int64_t n,
               double* sums) {
  const int bytes = traits(view.dtype).bits / 8;
  float row[kColumns];
  for (std::int64_t k = 0; k < view.k; ++k) {
    decode_f32(view.dtype, view.data + (k * view.stride + begin) * bytes, n,
               row);
    for (std::int64_t j = 0; j < n; ++j) sums[j] += double{row[j]};
  }
}

double plain_sum(const GemmView& view, std::int64_t outer,
                 InternalPrecision precision) {
  std::vector<double> values(static_cast<std::size_t>(view.k));
  gemm_values(view, outer, 0, view.k, values.data());
  return with_accumulator(precision, view.dtype, [&](auto make) {
    auto sum = make();
    using Real = typename decltype(sum)::Real;
    for (double v : values) sum.add(static_cast<Real>(v));
    return static_cast<double>(sum.total());
  });
}

}  // namespace

std::vector<double> gemm_bias_sums(const GemmView& view,
                                   InternalPrecision precision) {
  std::vector<double> sums(static_cast<std::size_t>(view.outer), 0.0);
  precision = effective_precision("bias_grad", precision);
  const bool fast = precision == InternalPrecision::kF32 && !view.k_contiguous;
  const std::int64_t blocks = (view.outer + kColumns - 1) / kColumns;
  parallel_for(blocks, [&](std::int64_t block) {
    const std::int64_t begin = block * kColumns;
    const std::int64_t n = std::min(kColumns, view.outer - begin);
    if (fast) return fast_sums(view, begin, n, sums.data() + begin);
    for (std::int64_t o = begin; o < begin + n; ++o)
      sums[static_cast<std::size_t>(o)] = plain_sum(
          view, o,
          precision == InternalPrecision::kF32 ? InternalPrecision::kF64
                                               : precision);
  });
  return sums;
}

}  // namespace assay::te
