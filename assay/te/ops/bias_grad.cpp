#include "assay/te/ops/bias_grad.h"

#include <algorithm>
#include <vector>

#include "assay/base/parallel.h"
#include "assay/kernels/convert.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

constexpr std::int64_t kColumns = 512;  // of one task
constexpr std::int64_t kRows = 256;     // summed by one task

// Columns [c, c + n) over rows [r0, r1), added to sums.
void add_rows(const Tensor& x, std::int64_t columns, std::int64_t r0,
              std::int64_t r1, std::int64_t c, std::int64_t n, double* sums) {
  const auto accumulate =
      convert_kernels(x.device).accumulate[float_width(x.dtype())];
  const std::int64_t size = traits(x.dtype()).bits / 8;
  for (std::int64_t r = r0; r < r1; ++r)
    accumulate(x.view.data + (r * columns + c) * size, n, sums);
}

std::vector<double> fast_sums(const Tensor& x, MatrixShape m) {
  const std::int64_t across = (m.columns + kColumns - 1) / kColumns;
  const std::int64_t down = (m.rows + kRows - 1) / kRows;
  std::vector<double> parts(static_cast<std::size_t>(down * m.columns));
  parallel_for(down * across, [&](std::int64_t i) {
    const std::int64_t r = i / across * kRows, c = i % across * kColumns;
    add_rows(x, m.columns, r, std::min(m.rows, r + kRows), c,
             std::min(kColumns, m.columns - c),
             parts.data() + i / across * m.columns + c);
  });
  std::vector<double> sums(static_cast<std::size_t>(m.columns));
  for (std::int64_t d = 0; d < down; ++d)
    for (std::int64_t c = 0; c < m.columns; ++c)
      sums[static_cast<std::size_t>(c)] +=
          parts[static_cast<std::size_t>(d * m.columns + c)];
  return sums;
}

double plain_sum(const Tensor& x, MatrixShape m, std::int64_t column, DType out,
                 InternalPrecision precision) {
  return with_accumulator(precision, out, [&](auto make) {
    auto sum = make();
    using Real = typename decltype(sum)::Real;
    for (std::int64_t r = 0; r < m.rows; ++r) {
      sum.add(static_cast<Real>(
          load_as_double(x.dtype(), x.view.data, r * m.columns + column)));
    }
    return static_cast<double>(sum.total());
  });
}

}  // namespace

Tensor bias_grad(const Tensor& input, DType out, InternalPrecision precision) {
  require_high_precision("bias_grad", "x", input);
  const MatrixShape m = matrix_shape(input.shape());
  Tensor result = Tensor::empty(out, {m.columns}, input.device);
  require_high_precision("bias_grad", "out", result);
  const Tensor x = contiguous(input);
  precision = effective_precision("bias_grad", precision);
  std::vector<double> sums(static_cast<std::size_t>(m.columns));
  if (precision == InternalPrecision::kF32) {
    sums = fast_sums(x, m);
  } else {
    parallel_for(m.columns, [&](std::int64_t c) {
      sums[static_cast<std::size_t>(c)] = plain_sum(x, m, c, out, precision);
    });
  }
  for (std::int64_t c = 0; c < m.columns; ++c) {
    store_from_double(out, sums[static_cast<std::size_t>(c)],
                      result.mutable_data(), c);
  }
  return result;
}

}  // namespace assay::te
