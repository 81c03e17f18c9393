// The rules of the backward, in the order of the forward, and what they round
// otherwise than the operations one by one:
//
//   BackwardActivationBias  Bias GELU|ReLU, behind an operation that quantises
//                           what comes back
//     The gradient of the bias sums the fp32 derivative before it is rounded
//     to the dtype; delayed scaling quantises it unrounded too.
//   BackwardLinearAdd       MakeExtraOutput(in_place) BasicLinear
//     The GEMM adds the other gradient to its fp32 sums: the rounding of the
//     product is not there.
//   BackwardLinearScale     BasicLinear ConstantScale
//     The GEMMs multiply their sums: scale dy is neither formed nor rounded,
//     and what is quantised is dy.
//   BackwardAddRMSNorm      MakeExtraOutput RMSNorm
//     The norm adds the other gradient before it rounds.
//
// A sum over ranks must not come between a GEMM and what it takes in.
#include <utility>

#include "assay/te/check.h"
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/basic_linear.h"
#include "assay/te/fusible/bias.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/fusion.h"
#include "assay/te/fusible/normalization.h"
#include "assay/te/quantize/fused.h"

namespace assay::te::ops {
namespace {

using Operations = std::span<BasicOperation* const>;
using Steps = std::span<BackwardStep>;

BasicLinear* local_linear(Operations ops, std::size_t i) {
  auto* linear = as<BasicLinear>(ops, i);
  if (!linear || linear->tensor_parallel_mode() == ParallelMode::kColumn)
    return nullptr;
  return linear;
}

std::size_t match_linear_add(Operations ops, const FusionContext&) {
  const auto* extra = as<MakeExtraOutput>(ops, 0);
  return extra && extra->in_place() && local_linear(ops, 1) ? 2 : 0;
}

Value linear_add(Value grad, Steps steps) {
  auto& linear = static_cast<BasicLinear&>(*steps[1].operation);
  LinearGradEpilogue epilogue;
  epilogue.add = &steps[0].extra_output_grads[0];
  Shape expected = shape_of(grad);
  if (!expected.empty()) expected.back() = linear.weight().shape[1];
  if (linear.tensor_parallel_mode() == ParallelMode::kNone)
    require_shape(steps[0].operation->name(), "gradient of the extra output",
                  *epilogue.add, expected);
  return linear.backward_fused(std::move(grad), steps[1], epilogue);
}

std::size_t match_linear_scale(Operations ops, const FusionContext&) {
  return local_linear(ops, 0) && as<ConstantScale>(ops, 1) ? 2 : 0;
}

Value linear_scale(Value grad, Steps steps) {
  auto& linear = static_cast<BasicLinear&>(*steps[0].operation);
  const auto& scale = static_cast<ConstantScale&>(*steps[1].operation);
  LinearGradEpilogue epilogue;
  epilogue.alpha = scale.scale();
  return linear.backward_fused(std::move(grad), steps[0], epilogue);
}

std::size_t match_add_rmsnorm(Operations ops, const FusionContext&) {
  const auto* extra = as<MakeExtraOutput>(ops, 0);
  return extra && !extra->in_place() && as<RMSNorm>(ops, 1) ? 2 : 0;
}

Value add_rmsnorm(Value grad, Steps steps) {
  auto& norm = static_cast<RMSNorm&>(*steps[1].operation);
  require_shape(steps[0].operation->name(), "gradient of the extra output",
                steps[0].extra_output_grads[0], shape_of(grad));
  return norm.backward_add(grad, steps[1], &steps[0].extra_output_grads[0]);
}

std::size_t match_activation_bias(Operations ops,
                                  const FusionContext& context) {
  const bool quantised =
      context.recipe && context.previous &&
      context.previous->num_quantizers(Direction::kBackward) > 0 &&
      backward_override(*context.recipe) == BackwardOverride::kNone;
  const bool fusible = as<GELU>(ops, 1) || as<ReLU>(ops, 1);
  return quantised && as<Bias>(ops, 0) && fusible ? 2 : 0;
}

Value activation_bias(Value grad, Steps steps) {
  auto& bias = static_cast<Bias&>(*steps[0].operation).bias();
  auto& op = static_cast<ActivationOperation&>(*steps[1].operation);
  Quantizer* quantizer = steps[0].previous_quantizer();
  if (!quantizer)
    return steps[0].operation->backward(op.backward(std::move(grad), steps[1]),
                                        steps[0]);
  const Tensor dy = tensor_of(grad);
  const Tensor x = op.take_input(*steps[1].context);
  QuantizedWithDbias out = dactivation_quantize_dbias(
      *quantizer, op.activation(), dy, x, op.options());
  accumulate_grad(bias, out.dbias);
  return std::move(out.quantized);
}

}  // namespace

std::vector<BackwardFusion> builtin_backward_fusions() {
  return {
      {"BackwardActivationBias", match_activation_bias, activation_bias},
      {"BackwardLinearAdd", match_linear_add, linear_add},
      {"BackwardLinearScale", match_linear_scale, linear_scale},
      {"BackwardAddRMSNorm", match_add_rmsnorm, add_rmsnorm},
  };
}

}  // namespace assay::te::ops
