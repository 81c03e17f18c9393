#include "assay/te/quantize/current.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/quantize/amax.h"
#include "assay/te/quantize/round_input.h"
#include "assay/te/quantize/scale.h"
#include "assay/te/quantize/tensor_scaled.h"

namespace assay::te {
namespace {

constexpr const char* kOp = "CurrentScalingQuantizer";

void set_amax(std::optional<QuantizedData>& q, const Tensor& amax) {
  if (q) q->amax = amax;
}

}  // namespace

CurrentScalingQuantizer::CurrentScalingQuantizer(
    const CurrentScalingOptions& options)
    : options_(options) {
  require_cast_format(kOp, options.format);
  require(options.epsilon >= 0, kOp, "epsilon", std::to_string(options.epsilon),
          "0 or more");
}

std::vector<QuantizedTensor> CurrentScalingQuantizer::quantize_multi(
    std::span<const Tensor> xs) {
  std::vector<float> amax =
      options_.existing_amax
          ? std::vector<float>(xs.size(), *options_.existing_amax)
          : tensor_amax(xs);
  if (options_.amax_reduction != nullptr)
    options_.amax_reduction->reduce_max(amax.data(),
                                        static_cast<std::int64_t>(amax.size()));
  const ScaleOptions rule{options_.pow2, options_.epsilon};
  std::vector<float> scales;
  for (float a : amax)
    scales.push_back(compute_scale(a, format_max(options_.format), rule));
  auto out = quantize_scaled(xs, scales, {options_.format, usage()});
  for (std::size_t i = 0; i < out.size(); ++i) {
    Tensor t = Tensor::empty(DType::kF32, {1}, out[i].device);
    *t.mutable_data<float>() = amax[i];
    set_amax(out[i].rowwise, t);
    set_amax(out[i].columnwise, t);
  }
  return out;
}

QuantizedTensor CurrentScalingQuantizer::quantize(const Tensor& x) {
  return std::move(quantize_multi(std::span(&x, 1)).front());
}

QuantizedTensor CurrentScalingQuantizer::quantize_fused(const Tensor& x_f32,
                                                        DType dtype) {
  return quantize(round_input(x_f32, dtype));
}

std::unique_ptr<Quantizer> CurrentScalingQuantizer::clone() const {
  return std::make_unique<CurrentScalingQuantizer>(*this);
}

}  // namespace assay::te
