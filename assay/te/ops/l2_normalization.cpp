// L2 normalisation: the RMSNorm kernels with a divisor and a weight of one.
#include <cmath>
#include <string>
#include <vector>

#include "assay/kernels/norm.h"
#include "assay/te/check.h"
#include "assay/te/ops/norm.h"
#include "assay/te/ops/row_blocks.h"
#include "assay/te/precision.h"

namespace assay::te {
namespace {

const NormKernels& table(Device device, InternalPrecision asked) {
  const InternalPrecision precision = effective_precision("l2norm", asked);
  return precision == InternalPrecision::kF32 ? norm_kernels(device)
                                              : plain_norm_kernels(precision);
}

void set_common(const Tensor& x, const std::vector<float>& ones, float* rsigma,
                NormArgs& args) {
  args.dtype = x.dtype();
  args.columns = matrix_shape(x.shape()).columns;
  args.x = x.data<std::byte>();
  args.gamma = ones.data();
  args.rsigma = rsigma;
}

std::vector<float> ones_for(std::int64_t columns) {
  return std::vector<float>(static_cast<std::size_t>(padded_columns(columns)),
                            1.0f);
}

}  // namespace

L2NormForward l2_normalization_forward(const Tensor& x,
                                       const L2NormOptions& options) {
  constexpr std::string_view kOp = "l2_normalization_forward";
  require_high_precision(kOp, "x", x);
  require_value(options.eps >= 0 && std::isfinite(options.eps), kOp, "eps",
                static_cast<double>(options.eps), "finite and at least 0");
  const MatrixShape shape = matrix_shape(x.shape());
  const NormKernels& kernels = table(x.device, options.precision);
  const Tensor in = contiguous(x);
  const auto ones = ones_for(shape.columns);
  L2NormForward result{Tensor::empty(x.dtype(), x.shape(), x.device),
                       Tensor::empty(DType::kF32, {shape.rows}, x.device)};
  NormForwardArgs args;
  set_common(in, ones, result.rsigma.mutable_data<float>(), args);
  args.eps = options.eps;
  args.out = x.dtype();
  std::byte* y = result.y.mutable_data();
  const std::int64_t row_bytes = shape.columns * traits(x.dtype()).bits / 8;
  for_row_blocks(shape.rows, rows_per_task(shape.columns),
                 [&](std::int64_t begin, std::int64_t end) {
                   NormForwardArgs block = args;
                   block.z = y + begin * row_bytes;
                   kernels.forward(block, begin, end);
                 });
  return result;
}

Tensor l2_normalization_backward(const Tensor& dy, const Tensor& x,
                                 const Tensor& rsigma,
                                 const L2NormOptions& options) {
  constexpr std::string_view kOp = "l2_normalization_backward";
  require_high_precision(kOp, "x", x);
  require_dtype(kOp, "dy", dy, {x.dtype()});
  require_shape(kOp, "dy", dy, x.shape());
  const MatrixShape shape = matrix_shape(x.shape());
  require_dtype(kOp, "rsigma", rsigma, {DType::kF32});
  require_shape(kOp, "rsigma", rsigma, {shape.rows});
  const Device device = common_device(kOp, {&dy, &x, &rsigma});
  const NormKernels& kernels = table(device, options.precision);
  const Tensor in = contiguous(x), grad = contiguous(dy),
               scale = contiguous(rsigma);
  const auto ones = ones_for(shape.columns);
  Tensor dx = Tensor::empty(x.dtype(), x.shape(), device);
  NormBackwardArgs args;
  set_common(in, ones, const_cast<float*>(scale.data<float>()), args);
  args.dz = grad.data<std::byte>();
  args.dx = dx.mutable_data();
  for_row_blocks(shape.rows, rows_per_task(shape.columns),
                 [&](std::int64_t begin, std::int64_t end) {
                   kernels.backward(args, begin, end);
                 });
  return dx;
}

}  // namespace assay::te
