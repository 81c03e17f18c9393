// The backward of an activation together with the gradient of the bias that
// was added before it.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "assay/kernels/cast.h"
#include "assay/kernels/convert.h"
#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/activation.h"
#include "assay/te/ops/activation_rows.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/ops/column_totals.h"
#include "assay/te/ops/row_blocks.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

// fp32 to the dtype of `out`, rounded to nearest even.
Tensor round_rows(const Tensor& wide, DType dtype) {
  if (dtype == DType::kF32) return wide;
  Tensor out = Tensor::empty(dtype, wide.shape(), wide.device);
  const CastKernels& kernels = cast_kernels(wide.device);
  const auto round = dtype == DType::kBF16 ? kernels.to_bf16 : kernels.to_f16;
  auto* codes = out.mutable_data<std::uint16_t>();
  const float* values = wide.data<float>();
  for_row_blocks(wide.numel(), kTaskElements,
                 [&](std::int64_t begin, std::int64_t end) {
                   round(values + begin, end - begin, codes + begin);
                 });
  return out;
}

constexpr std::int64_t kInCache = 1 << 13;  // fp32 results of a piece

// Each piece of fp32 results is summed and rounded while it is in the cache.
ActivationBiasGrads in_one_pass(const ActivationRows& rows, const Tensor& grad,
                                const Tensor& x) {
  const DType dtype = x.dtype();
  const std::int64_t columns = rows.in_columns();
  const std::int64_t step =
      std::max<std::int64_t>(1, kInCache / std::max<std::int64_t>(1, columns));
  Tensor dx = Tensor::empty(dtype, x.shape(), x.device);
  std::byte* out = dx.mutable_data();
  const CastKernels& kernels = cast_kernels(x.device);
  const auto round = dtype == DType::kBF16 ? kernels.to_bf16 : kernels.to_f16;
  const auto accumulate =
      convert_kernels(x.device).accumulate[float_width(DType::kF32)];
  const auto store = [&](const float* values, std::int64_t at,
                         std::int64_t count) {
    if (dtype == DType::kF32) {
      std::copy_n(values, count, reinterpret_cast<float*>(out) + at);
    } else {
      round(values, count, reinterpret_cast<std::uint16_t*>(out) + at);
    }
  };
  const std::vector<double> sums = column_totals(
      rows.rows(), columns,
      [&](std::int64_t begin, std::int64_t end, double* total) {
        std::vector<float> wide(static_cast<std::size_t>(step * columns));
        for (std::int64_t r = begin; r < end; r += step) {
          const std::int64_t n = std::min(step, end - r);
          rows.backward(grad.data<std::byte>(), r, n, 1.0f, wide.data(),
                        nullptr);
          for (std::int64_t k = 0; k < n; ++k)
            accumulate(
                reinterpret_cast<const std::byte*>(wide.data() + k * columns),
                columns, total);
          store(wide.data(), r * columns, n * columns);
        }
      });
  Tensor dbias = Tensor::empty(dtype, {columns}, x.device);
  for (std::int64_t c = 0; c < columns; ++c)
    store_from_double(dtype, sums[static_cast<std::size_t>(c)],
                      dbias.mutable_data(), c);
  return {std::move(dx), std::move(dbias)};
}

}  // namespace

ActivationBiasGrads activation_backward_dbias(Activation act, const Tensor& dy,
                                              const Tensor& x,
                                              const ActivationOptions& options,
                                              InternalPrecision precision) {
  constexpr std::string_view kOp = "activation_backward_dbias";
  check_activation_grad(kOp, act, dy, x, options);
  const Device device = common_device(kOp, {&dy, &x});
  const Tensor in = contiguous(x), grad = contiguous(dy);
  const ActivationRows rows(act, in, options, DType::kF32);
  precision = effective_precision("bias_grad", precision);
  if (precision == InternalPrecision::kF32) return in_one_pass(rows, grad, in);
  Tensor wide = Tensor::empty(DType::kF32, x.shape(), device);
  float* out = wide.mutable_data<float>();
  for_row_blocks(rows.rows(), rows_per_task(rows.in_columns()),
                 [&](std::int64_t begin, std::int64_t end) {
                   rows.backward(grad.data<std::byte>(), begin, end - begin,
                                 1.0f, out + begin * rows.in_columns(),
                                 nullptr);
                 });
  return {round_rows(wide, x.dtype()), bias_grad(wide, x.dtype(), precision)};
}

}  // namespace assay::te
