#include "assay/te/ops/norm_rows.h"

#include <cmath>
#include <string>

#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"
#include "assay/te/check.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

// value(j) of every column in `order`, zeros beyond the last.
template <class Value>
std::vector<float> arrange(std::int64_t columns, ColumnOrder order,
                           const Value& value) {
  std::vector<float> out(static_cast<std::size_t>(padded_columns(columns)));
  for (std::int64_t j = 0; j < columns; ++j)
    out[static_cast<std::size_t>(column_place(order, j))] =
        static_cast<float>(value(j));
  return out;
}

void check_parameter(std::string_view op, std::string_view name,
                     const Tensor& parameter, std::int64_t columns) {
  require_high_precision(op, name, parameter);
  require_shape(op, name, parameter, {columns});
}

}  // namespace

std::vector<float> norm_weights(const Tensor& gamma, const NormOptions& options,
                                ColumnOrder order) {
  const Tensor flat = contiguous(gamma);
  const double one = options.zero_centered_gamma ? 1.0 : 0.0;
  return arrange(gamma.numel(), order, [&](std::int64_t j) {
    // fp32 holds the sum of a 16-bit gamma; else it rounds once here.
    const double w =
        one + load_as_double(gamma.dtype(), flat.data<std::byte>(), j);
    return options.gamma_in_weight_dtype ? round_to(gamma.dtype(), w) : w;
  });
}

std::vector<float> norm_offsets(const Tensor& beta, ColumnOrder order) {
  const Tensor flat = contiguous(beta);
  return arrange(beta.numel(), order, [&](std::int64_t j) {
    return load_as_double(beta.dtype(), flat.data<std::byte>(), j);
  });
}

NormRows::NormRows(std::string_view op, const Tensor& x, const Tensor& gamma,
                   const Tensor* beta, const NormOptions& options, DType out)
    : x_(contiguous(x)) {
  require_high_precision(op, "x", x);
  require_value(options.eps >= 0 && std::isfinite(options.eps), op, "eps",
                static_cast<double>(options.eps), "finite and at least 0");
  const MatrixShape shape = matrix_shape(x.shape());
  require(shape.columns > 0, op, "x", "shape " + to_string(x.shape()),
          "a last dimension of at least 1");
  check_parameter(op, "gamma", gamma, shape.columns);
  if (beta != nullptr) check_parameter(op, "beta", *beta, shape.columns);
  const Device device = common_device(op, {&x, &gamma, beta});
  const InternalPrecision precision = effective_precision(
      beta == nullptr ? "rmsnorm" : "layernorm", options.precision);
  kernels_ = precision == InternalPrecision::kF32
                 ? &norm_kernels(device)
                 : &plain_norm_kernels(precision);
  const ColumnOrder order = kernels_->order(x.dtype(), out);
  gamma_ = norm_weights(gamma, options, order);
  rows_ = shape.rows;
  rsigma_ = Tensor::empty(DType::kF32, {rows_}, device);
  args_.dtype = x.dtype();
  args_.columns = shape.columns;
  args_.divisor = static_cast<double>(shape.columns);
  args_.eps = options.eps;
  args_.x = x_.data<std::byte>();
  args_.gamma = gamma_.data();
  args_.rsigma = rsigma_.mutable_data<float>();
  args_.out = out;
  if (beta == nullptr) return;
  beta_ = norm_offsets(*beta, order);
  mean_ = Tensor::empty(DType::kF32, {rows_}, device);
  args_.centred = true;
  args_.beta = beta_.data();
  args_.mean = mean_.mutable_data<float>();
}

void NormRows::set_residual(const Tensor& residual, Tensor& sum) {
  residual_ = contiguous(residual);
  args_.residual = residual_.data<std::byte>();
  args_.sum = sum.mutable_data();
}

void NormRows::forward(std::int64_t begin, std::int64_t end, void* z) const {
  NormForwardArgs args = args_;
  args.z = z;
  kernels_->forward(args, begin, end);
}

}  // namespace assay::te
