// The backward of an activation together with the gradient of the bias that
// was added before it.
#include <string>
#include <vector>

#include "assay/kernels/cast.h"
#include "assay/te/check.h"
#include "assay/te/ops/activation.h"
#include "assay/te/ops/activation_rows.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/ops/row_blocks.h"

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
