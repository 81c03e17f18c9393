// Scales of many small tensors of largest magnitudes.
#include <cmath>
#include <string>

#include "assay/numerics/element.h"
#include "assay/numerics/mxfp8_scale.h"
#include "assay/te/check.h"
#include "assay/te/optim/multi_tensor.h"
#include "assay/te/quantize/scale.h"

namespace assay::te {
namespace {

void require_same(std::string_view op, std::string_view argument,
                  std::span<const Tensor> amaxes, std::span<Tensor> outputs,
                  std::initializer_list<DType> dtypes) {
  require(outputs.size() == amaxes.size(), op, argument,
          std::to_string(outputs.size()) + " tensors",
          std::to_string(amaxes.size()));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    require_dtype(op, argument, outputs[i], dtypes);
    require_shape(op, argument, outputs[i], amaxes[i].shape());
    require_contiguous(op, argument, outputs[i]);
    require_writable(op, argument, outputs[i]);
    common_device(op, {&amaxes[i], &outputs[i]});
  }
}

}  // namespace

void multi_tensor_compute_scale_and_scale_inv(std::span<const Tensor> amaxes,
                                              std::span<Tensor> scales,
                                              std::span<Tensor> scale_invs,
                                              FormatScale format) {
  constexpr std::string_view kOp = "multi_tensor_compute_scale_and_scale_inv";
  require_same(kOp, "scales", amaxes, scales, {DType::kF32});
  require_same(kOp, "scale_invs", amaxes, scale_invs, {DType::kF32});
  require_value(format.fp8_max > 0 && std::isfinite(format.fp8_max), kOp,
                "fp8_max", static_cast<double>(format.fp8_max),
                "finite and above 0");
  require_value(format.epsilon >= 0 && std::isfinite(format.epsilon), kOp,
                "epsilon", static_cast<double>(format.epsilon),
                "finite and at least 0");
  ScaleOptions options;
  options.pow2 = format.pow2;
  options.epsilon = format.epsilon;
  for (std::size_t i = 0; i < amaxes.size(); ++i) {
    require_dtype(kOp, "amaxes", amaxes[i], {DType::kF32});
    const Tensor amax = contiguous(amaxes[i]);
    for (std::int64_t k = 0; k < amax.numel(); ++k) {
      const float scale =
          compute_scale(amax.data<float>()[k], format.fp8_max, options);
      scales[i].mutable_data<float>()[k] = scale;
      scale_invs[i].mutable_data<float>()[k] = scale_inverse(scale);
    }
  }
}

void multi_tensor_compute_scale_inv_e8m0(std::span<const Tensor> amaxes,
                                         std::span<Tensor> scale_invs) {
  constexpr std::string_view kOp = "multi_tensor_compute_scale_inv_e8m0";
  require_same(kOp, "scale_invs", amaxes, scale_invs,
               {DType::kE8M0, DType::kU8});
  for (std::size_t i = 0; i < amaxes.size(); ++i) {
    require_high_precision(kOp, "amaxes", amaxes[i]);
    const Tensor amax = contiguous(amaxes[i]);
    for (std::int64_t k = 0; k < amax.numel(); ++k)
      scale_invs[i].mutable_data<std::uint8_t>()[k] = mx_scale_code(
          static_cast<float>(load_as_double(amax.dtype(), amax.view.data, k)),
          DType::kE4M3FN);
  }
}

}  // namespace assay::te
