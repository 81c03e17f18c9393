// The rules of the forward, and what they round otherwise than the operations
// one by one:
//
//   ForwardLinearBiasAdd         BasicLinear [Bias] AddExtraInput(in_place)
//   ForwardLinearScaleAdd        BasicLinear ConstantScale
//                                AddExtraInput(in_place)
//   ForwardLinearBiasActivation  BasicLinear Bias [GELU], or BasicLinear GELU
//
// The GEMM adds and applies all of it to its fp32 sums and rounds once: the
// roundings to the dtype of the product, of the sum with the bias, and of the
// scaled product are not there. The input of GELU that is kept for the
// backward is rounded. GELU stays by itself where it quantises for the
// operation behind it. A bias is taken in for bfloat16 and float16 alone
// (NVTE), a sum over ranks must not come in between.
#include <utility>

#include "assay/te/check.h"
#include "assay/te/fusible/activation.h"
#include "assay/te/fusible/basic_linear.h"
#include "assay/te/fusible/bias.h"
#include "assay/te/fusible/elementwise.h"
#include "assay/te/fusible/fusion.h"

namespace assay::te::ops {
namespace {

using Operations = std::span<BasicOperation* const>;
using Steps = std::span<ForwardStep>;

BasicLinear* local_linear(Operations ops) {
  auto* linear = as<BasicLinear>(ops, 0);
  if (!linear || linear->tensor_parallel_mode() == ParallelMode::kRow)
    return nullptr;
  return linear;
}

bool adds_in_place(Operations ops, std::size_t i) {
  const auto* add = as<AddExtraInput>(ops, i);
  return add && add->in_place();
}

bool takes_bias(BasicLinear& linear) {
  return linear.weight().dtype != DType::kF32;
}

// Whether what comes next reads codes. An activation and a quantiser are one
// operator (te/quantize/fused.h), which rounds where NVTE and LayerNormMLP do.
bool reads_codes(Operations ops, std::size_t next,
                 const FusionContext& context) {
  return context.recipe && next < ops.size() &&
         ops[next]->num_quantizers(Direction::kForward) > 0;
}

void check_addend(const ForwardStep& step, const Shape& input,
                  BasicLinear& linear) {
  Shape expected = input;
  if (!expected.empty()) expected.back() = linear.weight().shape[0];
  const Tensor& extra = step.extra_inputs[0];
  if (linear.tensor_parallel_mode() != ParallelMode::kNone) return;
  require_shape(step.operation->name(), "extra input", extra, expected);
}

Value linear_add(Value input, Steps steps) {
  auto& linear = static_cast<BasicLinear&>(*steps[0].operation);
  LinearEpilogue epilogue;
  if (auto* bias = dynamic_cast<Bias*>(steps[1].operation))
    epilogue.bias = &*bias->bias().value;
  if (auto* scale = dynamic_cast<ConstantScale*>(steps[1].operation))
    epilogue.alpha = scale->scale();
  check_addend(steps.back(), shape_of(input), linear);
  epilogue.add = &steps.back().extra_inputs[0];
  return linear.forward_fused(std::move(input), steps[0], epilogue);
}

std::size_t match_linear_bias_add(Operations ops, const FusionContext&) {
  BasicLinear* linear = local_linear(ops);
  if (!linear) return 0;
  if (adds_in_place(ops, 1)) return 2;
  return as<Bias>(ops, 1) && takes_bias(*linear) && adds_in_place(ops, 2) ? 3
                                                                          : 0;
}

std::size_t match_linear_scale_add(Operations ops, const FusionContext&) {
  return local_linear(ops) && as<ConstantScale>(ops, 1) && adds_in_place(ops, 2)
             ? 3
             : 0;
}

std::size_t match_linear_bias_activation(Operations ops,
                                         const FusionContext& context) {
  BasicLinear* linear = local_linear(ops);
  if (!linear || !takes_bias(*linear)) return 0;
  const std::size_t count = as<Bias>(ops, 1) ? 2 : 1;
  if (as<GELU>(ops, count) && !reads_codes(ops, count + 1, context))
    return count + 1;
  return count == 2 ? 2 : 0;
}

Value linear_bias_activation(Value input, Steps steps) {
  auto& linear = static_cast<BasicLinear&>(*steps[0].operation);
  LinearEpilogue epilogue;
  if (auto* bias = dynamic_cast<Bias*>(steps[1].operation))
    epilogue.bias = &*bias->bias().value;
  const auto* gelu = dynamic_cast<GELU*>(steps.back().operation);
  Tensor pre_gelu;
  if (gelu) epilogue.pre_gelu = &pre_gelu;
  Tensor y = linear.forward_fused(std::move(input), steps[0], epilogue);
  if (gelu && steps.back().context)
    gelu->save_input(pre_gelu, *steps.back().context);
  return y;
}

}  // namespace

std::vector<ForwardFusion> builtin_forward_fusions() {
  return {
      {"ForwardLinearBiasAdd", match_linear_bias_add, linear_add},
      {"ForwardLinearScaleAdd", match_linear_scale_add, linear_add},
      {"ForwardLinearBiasActivation", match_linear_bias_activation,
       linear_bias_activation},
  };
}

}  // namespace assay::te::ops
