// The forward of the norms.
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"
#include "assay/te/check.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/norm_rows.h"
#include "assay/te/ops/row_blocks.h"

namespace assay::te {
namespace {

struct Operands {
  const Tensor& x;
  const Tensor* residual;
  const Tensor& gamma;
  const Tensor* beta;
};

void run(const NormRows& rows, Tensor& z) {
  std::byte* out = z.mutable_data();
  const std::int64_t row_bytes = rows.columns() * traits(z.dtype()).bits / 8;
  for_row_blocks(rows.rows(), rows_per_task(rows.columns()),
                 [&](std::int64_t begin, std::int64_t end) {
                   rows.forward(begin, end, out + begin * row_bytes);
                 });
}

// z = round(round(z gamma) + beta), z in its own dtype.
void apply_weights(const Tensor& gamma, const Tensor* beta,
                   const NormOptions& options, Tensor& z) {
  const auto weights = norm_weights(gamma, options, ColumnOrder::kPlain);
  std::vector<float> offsets(weights.size());
  if (beta != nullptr) offsets = norm_offsets(*beta, ColumnOrder::kPlain);
  const std::int64_t columns = gamma.numel();
  std::byte* data = z.mutable_data();
  for_row_blocks(
      z.numel() / columns, rows_per_task(columns),
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * columns; i < end * columns; ++i) {
          const auto j = static_cast<std::size_t>(i % columns);
          const double y = load_as_double(z.dtype(), data, i);
          const double product =
              round_to(z.dtype(), y * static_cast<double>(weights[j]));
          store_from_double(z.dtype(),
                            product + static_cast<double>(offsets[j]), data, i);
        }
      });
}

NormForward forward(std::string_view op, const Operands& in,
                    const NormOptions& options) {
  const bool once = options.rounding == NormRounding::kOnce;
  // Normalised first: a weight of one, then the weights apart.
  NormOptions bare = options;
  Tensor ones = in.gamma, zeros;
  if (!once) {
    bare.zero_centered_gamma = true;
    ones = Tensor::zeros(in.gamma.dtype(), in.gamma.shape(), in.gamma.device);
    if (in.beta != nullptr)
      zeros = Tensor::zeros(in.beta->dtype(), in.beta->shape(), in.x.device);
  }
  const Tensor* beta = in.beta == nullptr || once ? in.beta : &zeros;
  NormRows rows(op, in.x, ones, beta, bare, in.x.dtype());
  NormForward result;
  result.z = Tensor::empty(in.x.dtype(), in.x.shape(), in.x.device);
  if (in.residual != nullptr) {
    require_dtype(op, "residual", *in.residual, {in.x.dtype()});
    require_shape(op, "residual", *in.residual, in.x.shape());
    common_device(op, {&in.x, in.residual});
    result.sum = Tensor::empty(in.x.dtype(), in.x.shape(), in.x.device);
    rows.set_residual(*in.residual, result.sum);
  }
  run(rows, result.z);
  if (!once) apply_weights(in.gamma, in.beta, options, result.z);
  result.mean = rows.mean();
  result.rsigma = rows.rsigma();
  return result;
}

}  // namespace

NormForward layernorm_forward(const Tensor& x, const Tensor& gamma,
                              const Tensor& beta, const NormOptions& options) {
  return forward("layernorm_forward", {x, nullptr, gamma, &beta}, options);
}

NormForward rmsnorm_forward(const Tensor& x, const Tensor& gamma,
                            const NormOptions& options) {
  return forward("rmsnorm_forward", {x, nullptr, gamma, nullptr}, options);
}

NormForward layernorm_add_forward(const Tensor& x, const Tensor& residual,
                                  const Tensor& gamma, const Tensor& beta,
                                  const NormOptions& options) {
  return forward("layernorm_add_forward", {x, &residual, gamma, &beta},
                 options);
}

NormForward rmsnorm_add_forward(const Tensor& x, const Tensor& residual,
                                const Tensor& gamma,
                                const NormOptions& options) {
  return forward("rmsnorm_add_forward", {x, &residual, gamma, nullptr},
                 options);
}

}  // namespace assay::te
