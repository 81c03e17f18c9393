#include "assay/te/modules/layernorm_linear.h"

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/parallel/collectives.h"

namespace assay::te {
namespace {

bool gathers(const NormLinearOptions& options) {
  return options.return_layernorm_output_gathered &&
         options.tp.sequence_parallel && options.tp.size() > 1;
}

}  // namespace

NormModuleOptions NormLinearOptions::norm() const {
  return {.eps = eps,
          .zero_centered_gamma = zero_centered_gamma,
          .params_dtype = params_dtype,
          .sequence_parallel = tp.sequence_parallel,
          .fuse_wgrad_accumulation = fuse_wgrad_accumulation,
          .device = device};
}

Tensor layernorm_output(const Tensor& z, const NormLinearOptions& options) {
  return gathers(options) ? all_gather_first_dim(z, *options.tp.group) : z;
}

Tensor local_layernorm_grad(const Tensor& dz,
                            const NormLinearOptions& options) {
  return gathers(options) ? reduce_scatter_first_dim(dz, *options.tp.group)
                          : dz;
}

LayerNormLinear::LayerNormLinear(std::int64_t in_features,
                                 std::int64_t out_features,
                                 const NormLinearOptions& options)
    : QuantizedModule("LayerNormLinear", options.name, 1), options_(options) {
  require(options.parallel_mode != ParallelMode::kRow, name(), "parallel_mode",
          "row", "column or none");
  require(!options.save_original_input, name(), "save_original_input", "true",
          "false: the norm's input is kept");
  const auto add = [this](std::string local, Parameter p) -> Parameter& {
    return add_parameter(std::move(local), std::move(p));
  };
  norm_.emplace(*this, add, "layer_norm_", Shape{in_features},
                options.normalization, options.norm());
  parameters_.emplace(name(), add, "", in_features, out_features, options);
  linear_.emplace(
      *this, 0, parameters_->weight(), parameters_->bias(),
      LinearCore::Options{
          .mode = options.parallel_mode,
          .tp = options.tp,
          .fuse_wgrad_accumulation = options.fuse_wgrad_accumulation,
          .delay_wgrad_compute = options.delay_wgrad_compute});
  core_.emplace(*norm_, *linear_);
  reduce_amax_over_sequence(0, options.parallel_mode, options.tp);
  if (const auto* init = quantized_model_init()) {
    require(!parameters_->is_split(), name(), "parameters_split", "given",
            "one weight where it is stored quantised");
    linear_->store_quantized(*init);
  }
}

NormLinearOutput LayerNormLinear::forward(const Tensor& x, Context* context,
                                          const LinearCall& call) {
  parameters_->follow_parts(options_.fuse_wgrad_accumulation);
  QuantizedPass pass(*this, context != nullptr);
  Tensor z;
  NormLinearOutput out;
  out.output = core_->forward(pass, x, context ? &context->saved : nullptr,
                              call, !options_.return_bias,
                              options_.returns_norm() ? &z : nullptr);
  if (options_.returns_norm())
    out.layernorm_output = layernorm_output(z, options_);
  if (context) context->finish = pass.backward_finish();
  observe(*this, "output", out.output);
  return out;
}

Tensor LayerNormLinear::backward(const Tensor& dy, Context& context,
                                 const Tensor* d_layernorm_output) {
  require(!d_layernorm_output || options_.returns_norm(), name(),
          "d_layernorm_output", "given",
          "none: return_layernorm_output is false");
  Tensor dz;
  if (d_layernorm_output)
    dz = local_layernorm_grad(*d_layernorm_output, options_);
  const bool wanted = context.saved.linear.need_dgrad;
  Tensor dx = core_->backward({dy, {}, {}}, context.saved,
                              d_layernorm_output ? &dz : nullptr);
  parameters_->distribute_gradients(options_.fuse_wgrad_accumulation);
  if (context.finish) context.finish();
  if (wanted) observe(*this, "grad_input", dx);
  return dx;
}

void LayerNormLinear::on_new_quantizers() {
  if (linear_) linear_->on_new_quantizers();
}

void LayerNormLinear::own_backward_dw() {
  linear_->run_delayed();
  parameters_->distribute_gradients(options_.fuse_wgrad_accumulation);
}

}  // namespace assay::te
