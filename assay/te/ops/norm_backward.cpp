// The backward of the norms.
#include <string>
#include <vector>

#include "assay/numerics/element.h"
#include "assay/te/check.h"
#include "assay/te/ops/column_totals.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/norm_rows.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

struct Operands {
  const Tensor &dz, &x;
  const Tensor *add, *mean;
  const Tensor &rsigma, &gamma;
};

void check(std::string_view op, const Operands& in, MatrixShape shape) {
  require_high_precision(op, "x", in.x);
  require(shape.columns > 0, op, "x", "shape " + to_string(in.x.shape()),
          "a last dimension of at least 1");
  require_dtype(op, "dz", in.dz, {in.x.dtype()});
  require_shape(op, "dz", in.dz, in.x.shape());
  require_high_precision(op, "gamma", in.gamma);
  require_shape(op, "gamma", in.gamma, {shape.columns});
  require_dtype(op, "rsigma", in.rsigma, {DType::kF32});
  require_shape(op, "rsigma", in.rsigma, {shape.rows});
  if (in.mean != nullptr) {
    require_dtype(op, "mean", *in.mean, {DType::kF32});
    require_shape(op, "mean", *in.mean, {shape.rows});
  }
  if (in.add != nullptr) {
    require_dtype(op, "add", *in.add, {in.x.dtype()});
    require_shape(op, "add", *in.add, in.x.shape());
  }
}

Tensor store_columns(const std::vector<double>& sums, std::size_t offset,
                     ColumnOrder order, const Tensor& like) {
  Tensor out = Tensor::empty(like.dtype(), like.shape(), like.device);
  for (std::int64_t j = 0; j < out.numel(); ++j) {
    const auto place = static_cast<std::size_t>(column_place(order, j));
    store_from_double(out.dtype(), sums[offset + place], out.mutable_data(), j);
  }
  return out;
}

// Blocks of rows, each small enough that its second reading comes from the
// cache.
template <class Body>
void in_groups(std::int64_t begin, std::int64_t end, const Body& body) {
  constexpr std::int64_t kGroup = 16;
  for (std::int64_t r = begin; r < end; r += kGroup)
    body(r, std::min(end, r + kGroup));
}

// Both gradients of every block; a plain variant forms the sums over all rows
// in one accumulator, after dx.
std::vector<double> run(const NormKernels& kernels, bool one_accumulator,
                        const NormBackwardArgs& args, std::int64_t rows,
                        std::size_t width) {
  const auto both = [&](std::int64_t begin, std::int64_t end, double* sums) {
    double* dbeta = args.centred ? sums + width : nullptr;
    in_groups(begin, end, [&](std::int64_t first, std::int64_t last) {
      kernels.backward(args, first, last);
      if (!one_accumulator) kernels.param_grads(args, first, last, sums, dbeta);
    });
  };
  auto sums = column_totals(rows, static_cast<std::int64_t>(2 * width), both);
  if (one_accumulator)
    kernels.param_grads(args, 0, rows, sums.data(),
                        args.centred ? sums.data() + width : nullptr);
  return sums;
}

NormBackward backward(std::string_view op, const Operands& in,
                      const NormOptions& options) {
  const MatrixShape shape = matrix_shape(in.x.shape());
  check(op, in, shape);
  const Device device = common_device(
      op, {&in.dz, &in.x, in.add, in.mean, &in.rsigma, &in.gamma});
  const InternalPrecision precision = effective_precision(
      in.mean == nullptr ? "rmsnorm" : "layernorm", options.precision);
  const bool fast = precision == InternalPrecision::kF32;
  const NormKernels& kernels =
      fast ? norm_kernels(device) : plain_norm_kernels(precision);
  const ColumnOrder order = kernels.order(in.x.dtype(), in.x.dtype());
  const auto gamma = norm_weights(in.gamma, options, order);
  const Tensor x = contiguous(in.x), dz = contiguous(in.dz),
               rsigma = contiguous(in.rsigma),
               mean = in.mean == nullptr ? Tensor() : contiguous(*in.mean),
               add = in.add == nullptr ? Tensor() : contiguous(*in.add);
  NormBackward result;
  result.dx = Tensor::empty(in.x.dtype(), in.x.shape(), device);
  NormBackwardArgs args;
  args.dtype = in.x.dtype();
  args.columns = shape.columns;
  args.centred = in.mean != nullptr;
  args.divisor = static_cast<double>(shape.columns);
  args.x = x.data<std::byte>();
  args.gamma = gamma.data();
  // The kernels only read the statistics here.
  args.mean = const_cast<float*>(mean.data<float>());
  args.rsigma = const_cast<float*>(rsigma.data<float>());
  args.dz = dz.data<std::byte>();
  args.add = in.add == nullptr ? nullptr : add.data<std::byte>();
  args.dx = result.dx.mutable_data();
  const auto sums = run(kernels, !fast, args, shape.rows, gamma.size());
  result.dgamma = store_columns(sums, 0, order, in.gamma);
  if (args.centred)
    result.dbeta = store_columns(sums, gamma.size(), order, in.gamma);
  return result;
}

}  // namespace

NormBackward layernorm_backward(const Tensor& dz, const Tensor& x,
                                const Tensor& mean, const Tensor& rsigma,
                                const Tensor& gamma,
                                const NormOptions& options) {
  return backward("layernorm_backward", {dz, x, nullptr, &mean, rsigma, gamma},
                  options);
}

NormBackward rmsnorm_backward(const Tensor& dz, const Tensor& x,
                              const Tensor& rsigma, const Tensor& gamma,
                              const NormOptions& options) {
  return backward("rmsnorm_backward", {dz, x, nullptr, nullptr, rsigma, gamma},
                  options);
}

NormBackward layernorm_backward_add(const Tensor& dz, const Tensor& x,
                                    const Tensor& add, const Tensor& mean,
                                    const Tensor& rsigma, const Tensor& gamma,
                                    const NormOptions& options) {
  return backward("layernorm_backward_add", {dz, x, &add, &mean, rsigma, gamma},
                  options);
}

NormBackward rmsnorm_backward_add(const Tensor& dz, const Tensor& x,
                                  const Tensor& add, const Tensor& rsigma,
                                  const Tensor& gamma,
                                  const NormOptions& options) {
  return backward("rmsnorm_backward_add", {dz, x, &add, nullptr, rsigma, gamma},
                  options);
}

}  // namespace assay::te
