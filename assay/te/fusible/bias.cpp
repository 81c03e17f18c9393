#include "assay/te/fusible/bias.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/bias_grad.h"
#include "assay/te/ops/residual.h"

namespace assay::te::ops {
namespace {

Parameter zeros(std::int64_t size, const BiasOptions& options) {
  require(size > 0, "Bias", "size", std::to_string(size), "a positive size");
  const bool cut = options.tensor_parallel && options.group.size() > 1;
  const std::int64_t mine =
      cut ? shard_size("Bias", "size", size, options.group.size()) : size;
  Parameter p =
      make_parameter(Tensor::zeros(options.dtype, {mine}, options.device));
  if (cut) {
    p.tensor_model_parallel = true;
    p.partition_dim = 0;
  }
  return p;
}

}  // namespace

Bias::Bias(std::int64_t size, const BiasOptions& options)
    : BasicOperation("Bias"),
      bias_(add_parameter("bias", zeros(size, options))) {}

Value Bias::forward(Value input, ForwardStep&) {
  return bias_dropout_add_forward(tensor_of(input), values_of(bias_),
                                  std::nullopt, 0, {})
      .out;
}

Value Bias::backward(Value grad, BackwardStep& step) {
  const Tensor dy = tensor_of(grad);
  Quantizer* quantizer = step.previous_quantizer();
  if (bias_.requires_grad) accumulate_grad(bias_, bias_grad(dy, bias_.dtype));
  if (quantizer && std::holds_alternative<Tensor>(grad))
    return quantizer->quantize(dy);
  return grad;
}

}  // namespace assay::te::ops
