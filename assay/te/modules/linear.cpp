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

Tensor Linear::forward(const Tensor& x, Context* context,
                       const LinearCall& call) {
  parameters_.follow_parts(options_.fuse_wgrad_accumulation);
  QuantizedPass pass(*this, context != nullptr);
  Tensor y = core_->forward(pass, {x, {}}, context ? &context->saved : nullptr,
                            call, !options_.return_bias);
  if (context) context->finish = pass.backward_finish();
  observe(*this, "output", y);
  return y;
}

Tensor Linear::backward(const Tensor& dy, Context& context) {
  const bool wanted = context.saved.need_dgrad;
  Tensor dx = core_->backward({dy, {}, {}}, context.saved);
  parameters_.distribute_gradients(options_.fuse_wgrad_accumulation);
  if (context.finish) context.finish();
  if (wanted) observe(*this, "grad_input", dx);
  return dx;
}

void Linear::on_new_quantizers() {
  if (core_) core_->on_new_quantizers();
}

void Linear::own_backward_dw() {
  core_->run_delayed();
  parameters_.distribute_gradients(options_.fuse_wgrad_accumulation);
}

}  // namespace assay::te
