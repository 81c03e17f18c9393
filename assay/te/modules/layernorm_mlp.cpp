#include "assay/te/modules/layernorm_mlp.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/quantize/fused.h"

namespace assay::te {

void LayerNormMLP::Context::visit_tensors(const TensorVisitor& visit) const {
  fc1.visit_tensors(visit);
  if (h) visit(*h);
  fc2.visit_tensors(visit);
}

LayerNormMLP::LayerNormMLP(std::int64_t hidden_size,
                           std::int64_t ffn_hidden_size,
                           const LayerNormMLPOptions& options)
    : QuantizedModule("LayerNormMLP", options.name, 2), options_(options) {
  require(options.parallel_mode == ParallelMode::kNone, name(), "parallel_mode",
          "given", "set_parallel_mode");
  require(options.parameters_split.empty(), name(), "parameters_split", "given",
          "none");
  require(!options.save_original_input, name(), "save_original_input", "true",
          "false: the norm's input is kept");
  require(ffn_hidden_size > 0, name(), "ffn_hidden_size",
          std::to_string(ffn_hidden_size), "a positive size");
  activation_.params = options.activation_params;
  make_parameters(hidden_size, ffn_hidden_size);
  reduce_amax_over_sequence(0, fc1_->options().mode, options.tp);
  reduce_amax_over_sequence(1, fc2_->options().mode, options.tp);
  if (const auto* init = quantized_model_init()) {
    fc1_->store_quantized(*init);
    fc2_->store_quantized(*init);
  }
}

void LayerNormMLP::make_parameters(std::int64_t hidden, std::int64_t ffn) {
  const auto add = [this](std::string local, Parameter p) -> Parameter& {
    return add_parameter(std::move(local), std::move(p));
  };
  norm_.emplace(*this, add, "layer_norm_", Shape{hidden},
                options_.normalization, options_.norm());
  const bool parallel = options_.set_parallel_mode;
  const int halves = is_gated(options_.activation) ? 2 : 1;
  LinearOptions fc1 = options_, fc2 = options_;
  if (parallel) {
    shard_size(name(), "ffn_hidden_size", ffn, options_.tp.size());
    fc1.parallel_mode = ParallelMode::kColumn;
    fc2.parallel_mode = ParallelMode::kRow;
  }
  fc1.row_blocks = halves;
  fc2.row_blocks = 1;
  fc2.init_method = options_.output_layer_init_method;
  fc1_parameters_.emplace(name(), add, "fc1_", hidden, halves * ffn, fc1);
  fc2_parameters_.emplace(name(), add, "fc2_", ffn, hidden, fc2);
  const auto core = [&](const LinearOptions& o, const char* prefix) {
    return LinearCore::Options{
        .mode = o.parallel_mode,
        .tp = o.tp,
        .fuse_wgrad_accumulation = o.fuse_wgrad_accumulation,
        .delay_wgrad_compute = o.delay_wgrad_compute,
        .prefix = prefix};
  };
  fc1_.emplace(*this, 0, fc1_parameters_->weight(), fc1_parameters_->bias(),
               core(fc1, "fc1_"));
  fc2_.emplace(*this, 1, fc2_parameters_->weight(), fc2_parameters_->bias(),
               core(fc2, "fc2_"));
  norm_fc1_.emplace(*norm_, *fc1_);
}

Shape LayerNormMLP::activated_shape(const Tensor& h) const {
  Shape shape = h.shape();
  if (is_gated(options_.activation)) shape.back() /= 2;
  return shape;
}

LinearInput LayerNormMLP::activated(const Tensor& h,
                                    Quantizer* quantizer) const {
  if (quantizer)
    return {
        {},
        activation_quantize(*quantizer, options_.activation, h, activation_)};
  return {activation_forward(options_.activation, h, activation_), {}};
}

NormLinearOutput LayerNormMLP::forward(const Tensor& x, Context* context,
                                       const LinearCall& call) {
  if (context) *context = {};
  QuantizedPass pass(*this, context != nullptr);
  require(pass.backward_override() == BackwardOverride::kNone, name(),
          "backward_override", "of the recipe", "none");
  Tensor z;
  const bool returns = options_.returns_norm();
  Tensor h = norm_fc1_->forward(pass, x, context ? &context->fc1 : nullptr,
                                call, true, returns ? &z : nullptr);
  if (context) context->fc2_requantizer = fc2_->input_requantizer(pass);
  // fc1 is before fc2: there is always something to train.
  LinearCall inner = call;
  inner.input_requires_grad = true;
  NormLinearOutput out;
  out.output = fc2_->forward(
      pass, activated(h, fc2_->input_quantizer(pass, activated_shape(h))),
      context ? &context->fc2 : nullptr, inner, !options_.return_bias);
  if (returns) out.layernorm_output = layernorm_output(z, options_);
  if (context) {
    if (!options_.checkpoint) context->h = std::move(h);
    context->fc2.input.reset();
    context->fc2.input_quantized.reset();
    context->finish = pass.backward_finish();
  }
  observe(*this, "output", out.output);
  return out;
}

LinearGrad LayerNormMLP::grad_of_h(const Tensor& da, const Tensor& h,
                                   const LinearCore::Saved& fc1) {
  const Activation act = options_.activation;
  Parameter* bias = fc1_parameters_->bias();
  const bool sums = bias && bias->requires_grad;
  LinearGrad dh;
  if (Quantizer* q = fc1_->grad_quantizer(fc1)) {
    if (!sums) {
      dh.quantized = dactivation_quantize(*q, act, da, h, activation_);
      return dh;
    }
    auto fused = dactivation_quantize_dbias(*q, act, da, h, activation_);
    dh.quantized = std::move(fused.quantized);
    dh.bias_grad = std::move(fused.dbias);
  } else if (sums) {
    auto fused = activation_backward_dbias(act, da, h, activation_);
    dh.tensor = std::move(fused.dx);
    dh.bias_grad = std::move(fused.dbias);
  } else {
    dh.tensor = activation_backward(act, da, h, activation_);
  }
  return dh;
}

Tensor LayerNormMLP::backward(const Tensor& dy, Context& context,
                              const Tensor* d_layernorm_output) {
  require(!d_layernorm_output || options_.returns_norm(), name(),
          "d_layernorm_output", "given",
          "none: return_layernorm_output is false");
  require(context.fc2.rows >= 0, name(), "context",
          "not of a forward pass, or used up", "that of one");
  Tensor h = context.h ? *context.h : norm_fc1_->forward_again(context.fc1);
  context.h.reset();
  if (context.fc2.need_wgrad) {
    Quantizer* q = context.fc2_requantizer.get();
    if (q) set_directions(*q, false, true);
    LinearInput a = activated(h, q);
    context.fc2.input = std::move(a.tensor);
    context.fc2.input_quantized = std::move(a.quantized);
  }
  const Tensor da = fc2_->backward({dy, {}, {}}, context.fc2);
  LinearGrad dh = grad_of_h(da, h, context.fc1.linear);
  h = {};
  Tensor dz;
  if (d_layernorm_output)
    dz = local_layernorm_grad(*d_layernorm_output, options_);
  const bool wanted = context.fc1.linear.need_dgrad;
  Tensor dx = norm_fc1_->backward(std::move(dh), context.fc1,
                                  d_layernorm_output ? &dz : nullptr);
  if (context.finish) context.finish();
  if (wanted) observe(*this, "grad_input", dx);
  return dx;
}

void LayerNormMLP::on_new_quantizers() {
  if (fc1_) fc1_->on_new_quantizers();
  if (fc2_) fc2_->on_new_quantizers();
}

void LayerNormMLP::own_backward_dw() {
  fc2_->run_delayed();
  fc1_->run_delayed();
}

}  // namespace assay::te
