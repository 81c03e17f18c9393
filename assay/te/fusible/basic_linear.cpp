#include "assay/te/fusible/basic_linear.h"

#include <cmath>
#include <utility>

#include "assay/core/philox.h"
#include "assay/numerics/element.h"

namespace assay::te::ops {
namespace {

LinearOptions parameter_options(std::int64_t in_features,
                                const BasicLinearOptions& options) {
  LinearOptions out;
  out.bias = false;
  out.params_dtype = options.dtype;
  out.init_method =
      options.init_method ? options.init_method : default_init(in_features);
  out.parallel_mode = options.tensor_parallel_mode;
  out.tp = options.tensor_parallel;
  out.device = options.device;
  return out;
}

}  // namespace

InitMethod default_init(std::int64_t in_features) {
  const double bound = 1 / std::sqrt(static_cast<double>(in_features));
  return [bound](Tensor& whole, std::uint64_t seed) {
    PhiloxStream random(seed);
    std::byte* to = whole.mutable_data();
    const DType dtype = whole.dtype();
    for (std::int64_t i = 0, n = whole.numel(); i < n; ++i)
      store_from_double(dtype, bound * (2 * random.next_uniform() - 1), to, i);
  };
}

BasicLinear::BasicLinear(std::int64_t in_features, std::int64_t out_features,
                         const BasicLinearOptions& options)
    : BasicOperation("BasicLinear", 1),
      parameters_(
          name(),
          [this](std::string local, Parameter p) -> Parameter& {
            return add_parameter(std::move(local), std::move(p));
          },
          "", in_features, out_features,
          parameter_options(in_features, options)) {
  LinearCore::Options core;
  core.mode = options.tensor_parallel_mode;
  core.tp = options.tensor_parallel;
  core.fuse_wgrad_accumulation = options.accumulate_into_main_grad;
  core_.emplace(*this, 0, parameters_.weight(), nullptr, core);
  reduce_amax_over_sequence(0, core.mode, core.tp);
  if (const auto* init = quantized_model_init()) core_->store_quantized(*init);
}

Value BasicLinear::forward(Value input, ForwardStep& step) {
  return forward_fused(std::move(input), step, {});
}

Tensor BasicLinear::forward_fused(Value input, ForwardStep& step,
                                  const LinearEpilogue& epilogue) {
  LinearInput x;
  auto* quantized = std::get_if<QuantizedTensor>(&input);
  const bool as_codes =
      quantized && input_quantizer(step, quantized->shape) != nullptr;
  // A backward in high precision wants the values too, ranks that cannot
  // exchange codes want nothing else.
  if (!as_codes) x.tensor = tensor_of(input);
  const bool gathers = core_->options().mode == ParallelMode::kColumn &&
                       core_->options().tp.sequence_parallel &&
                       core_->options().tp.size() > 1;
  if (as_codes || (quantized && step.pass->quantizing() && !gathers))
    x.quantized = std::move(*quantized);
  LinearCore::Saved* saved =
      step.context ? &step.context->saved.emplace<LinearCore::Saved>()
                   : nullptr;
  return core_->forward(*step.pass, std::move(x), saved, step.call, true,
                        epilogue);
}

Value BasicLinear::backward(Value grad, BackwardStep& step) {
  return backward_fused(std::move(grad), step, {});
}

Tensor BasicLinear::backward_fused(Value grad, BackwardStep& step,
                                   const LinearGradEpilogue& epilogue) {
  auto& saved = step.context->saved.as<LinearCore::Saved>();
  LinearGrad dy;
  auto* quantized = std::get_if<QuantizedTensor>(&grad);
  if (quantized && core_->grad_quantizer(saved)) {
    dy.quantized = std::move(*quantized);
  } else {
    dy.tensor = tensor_of(grad);
  }
  Tensor dx = core_->backward(std::move(dy), saved, epilogue);
  step.context->saved.reset();
  return dx;
}

Quantizer* BasicLinear::input_quantizer(const ForwardStep& step,
                                        const Shape& shape) const {
  return core_->input_quantizer(*step.pass, shape);
}

Quantizer* BasicLinear::grad_quantizer(OperationContext& context) const {
  return core_->grad_quantizer(context.saved.as<LinearCore::Saved>());
}

void BasicLinear::on_new_quantizers() {
  if (core_) core_->on_new_quantizers();
}

}  // namespace assay::te::ops
