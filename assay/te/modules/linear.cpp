#include "assay/te/modules/linear.h"

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"

namespace assay::te {

Linear::Linear(std::int64_t in_features, std::int64_t out_features,
               const LinearOptions& options)
    : QuantizedModule("Linear", options.name, 1),
      in_features_(in_features),
      out_features_(out_features),
      options_(options),
      parameters_(
          name(),
          [this](std::string local, Parameter p) -> Parameter& {
            return add_parameter(std::move(local), std::move(p));
          },
          "", in_features, out_features, options) {
  core_.emplace(*this, 0, parameters_.weight(), parameters_.bias(),
                LinearCore::Options{options.parallel_mode, options.tp,
                                    options.save_original_input,
                                    options.fuse_wgrad_accumulation,
                                    options.delay_wgrad_compute});
  reduce_amax_over_sequence(0, options.parallel_mode, options.tp);
  if (const auto* init = quantized_model_init()) {
    require(!parameters_.is_split(), name(), "parameters_split", "given",
            "one weight where it is stored quantised");
    core_->store_quantized(*init);
  }
}

Tensor Linear::run_forward(LinearInput x, Context* context,
                           const LinearCall& call,
                           const LinearEpilogue& epilogue) {
  parameters_.follow_parts(options_.fuse_wgrad_accumulation);
  QuantizedPass pass(*this, context != nullptr);
  Tensor y =
      core_->forward(pass, std::move(x), context ? &context->saved : nullptr,
                     call, !options_.return_bias, epilogue);
  if (context) context->finish = pass.backward_finish();
  return y;
}

Tensor Linear::run_backward(LinearGrad dy, Context& context,
                            const LinearGradEpilogue& epilogue) {
  Tensor dx = core_->backward(std::move(dy), context.saved, epilogue);
  parameters_.distribute_gradients(options_.fuse_wgrad_accumulation);
  if (context.finish) context.finish();
  return dx;
}

Tensor Linear::forward(const Tensor& x, Context* context,
                       const LinearCall& call) {
  return forward(LinearInput{x, {}}, context, call);
}

Tensor Linear::forward(LinearInput x, Context* context,
                       const LinearCall& call) {
  Tensor y = run_forward(std::move(x), context, call, {});
  observe(*this, "output", y);
  return y;
}

QuantizedTensor Linear::forward_fp8(LinearInput x, Context* context,
                                    const LinearCall& call) {
  std::optional<QuantizedTensor> y;
  run_forward(std::move(x), context, call, {.fp8 = &y});
  return *std::move(y);
}

Tensor Linear::backward(const Tensor& dy, Context& context) {
  return backward(LinearGrad{dy, {}, {}}, context);
}

Tensor Linear::backward(LinearGrad dy, Context& context) {
  const bool wanted = context.saved.need_dgrad;
  Tensor dx = run_backward(std::move(dy), context, {});
  if (wanted) observe(*this, "grad_input", dx);
  return dx;
}

QuantizedTensor Linear::backward_fp8(LinearGrad dy, Context& context) {
  require(context.saved.need_dgrad, name(), "fp8_grad",
          "of an input that needs no gradient", "one that does");
  std::optional<QuantizedTensor> dx;
  run_backward(std::move(dy), context, {.fp8 = &dx});
  return *std::move(dx);
}

void Linear::on_new_quantizers() {
  if (core_) core_->on_new_quantizers();
}

void Linear::own_backward_dw() {
  core_->run_delayed();
  parameters_.distribute_gradients(options_.fuse_wgrad_accumulation);
}

}  // namespace assay::te
