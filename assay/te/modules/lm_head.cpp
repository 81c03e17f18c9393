#include "assay/te/modules/lm_head.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/modules/parameter_init.h"
#include "assay/te/ops/gemm.h"
#include "assay/te/parallel/collectives.h"
#include "assay/te/quantize/identity.h"

namespace assay::te {

class LmHead::OutputLayer : public Module {
 public:
  OutputLayer(std::string name, Parameter values)
      : Module("OutputLayer", std::move(name)),
        weight(add_parameter("weight", std::move(values))) {}
  Parameter& weight;
};

LmHead::~LmHead() = default;

void LmHead::Context::visit_tensors(const TensorVisitor& visit) const {
  norm.visit_tensors(visit);
  if (x.view.data) visit(x);
}

LmHead::LmHead(std::int64_t hidden_size, std::int64_t vocab_size,
               const LmHeadOptions& options)
    : Module("LmHead", options.name),
      hidden_size_(hidden_size),
      options_(options) {
  require(hidden_size > 0, name(), "hidden_size", std::to_string(hidden_size),
          "a positive size");
  require(vocab_size > 0, name(), "vocab_size", std::to_string(vocab_size),
          "a positive size");
  const int ranks = options.tp.size();
  const std::int64_t rows = shard_size(name(), "vocab_size", vocab_size, ranks);
  if (options.final_layernorm) {
    NormModuleOptions norm;
    norm.eps = options.layernorm_epsilon;
    norm.zero_centered_gamma = options.zero_centered_gamma;
    norm.params_dtype = options.params_dtype;
    norm.sequence_parallel = options.tp.sequence_parallel && ranks > 1;
    norm.fuse_wgrad_accumulation = options.fuse_wgrad_accumulation;
    norm.device = options.device;
    norm.name = name() + ".final_layernorm";
    if (options.normalization == Normalization::kRMSNorm) {
      norm_ = std::make_unique<RMSNorm>(hidden_size, norm);
    } else {
      norm_ = std::make_unique<LayerNorm>(hidden_size, norm);
    }
    add_child("final_layernorm", *norm_);
  }
  if (options.shared_weight) {
    weight_ = options.shared_weight;
    require(weight_->shape == Shape{rows, hidden_size}, name(), "shared_weight",
            "shape " + to_string(weight_->shape),
            to_string(Shape{rows, hidden_size}));
    return;
  }
  const InitMethod init =
      options.init_method ? options.init_method : normal_init(0.023);
  const Tensor whole = initialised(
      options.params_dtype, {vocab_size, hidden_size}, options.device, init);
  Parameter weight = make_parameter(cut(whole, 0, ranks, options.tp.rank()));
  weight.tensor_model_parallel = options.tp.group != nullptr;
  weight.partition_dim = options.tp.group ? 0 : -1;
  output_layer_ = std::make_unique<OutputLayer>(name() + ".output_layer",
                                                std::move(weight));
  weight_ = &output_layer_->weight;
  add_child("output_layer", *output_layer_);
}

Tensor LmHead::forward(const Tensor& x, Context* context) {
  require_high_precision(name(), "input", x);
  require(!x.shape().empty() && x.shape().back() == hidden_size_, name(),
          "input", "shape " + to_string(x.shape()),
          "[..., " + std::to_string(hidden_size_) + "]");
  const Tensor w = values_of(*weight_);
  require_dtype(name(), "input", x, {w.dtype()});
  Tensor z = norm_ ? norm_->forward(x, context ? &context->norm : nullptr) : x;
  if (options_.tp.size() > 1 && options_.tp.sequence_parallel)
    z = all_gather_first_dim(z, *options_.tp.group);
  GemmOptions gemm;
  if (options_.fp32_logits) gemm.out_dtype = DType::kF32;
  Tensor logits = gemm_fprop(z, w, gemm).d;
  if (context) context->x = std::move(z);
  observe(*this, "output", logits);
  return logits;
}

Tensor LmHead::input_grad(const Tensor& dy) const {
  Tensor dx = gemm_dgrad(dy, values_of(*weight_)).d;
  if (options_.tp.size() == 1) return dx;
  Communicator& group = *options_.tp.group;
  return options_.tp.sequence_parallel ? reduce_scatter_first_dim(dx, group)
                                       : all_reduce_sum(dx, group);
}

void LmHead::add_weight_grad(const Tensor& dy, const Tensor& x) {
  if (!weight_->requires_grad) return;
  const bool fused = options_.fuse_wgrad_accumulation && weight_->main_grad;
  std::optional<Tensor>& sum = fused ? weight_->main_grad : weight_->grad;
  GemmOptions gemm;
  if (sum) {
    gemm.beta = 1;
    gemm_into(*sum, x, dy, GemmLayout::kNT, gemm);
  } else {
    gemm.out_dtype = weight_->dtype;
    sum = gemm_wgrad(dy, x, gemm).d;
  }
  weight_->grad_added_to_main_grad |= fused;
}

Tensor LmHead::backward(const Tensor& d_logits, Context& context) {
  require(!context.x.shape().empty(), name(), "context",
          "not of a forward pass, or used up", "that of one");
  Shape shape = context.x.shape();
  shape.back() = weight_->shape[0];
  require_shape(name(), "grad_output", d_logits, shape);
  const DType logits = options_.fp32_logits ? DType::kF32 : context.x.dtype();
  require_dtype(name(), "grad_output", d_logits, {logits});
  const Tensor dy = convert_high_precision(d_logits, context.x.dtype());
  Tensor dx = input_grad(dy);
  add_weight_grad(dy, context.x);
  if (norm_) dx = norm_->backward(dx, context.norm);
  context = {};
  observe(*this, "grad_input", dx);
  return dx;
}

}  // namespace assay::te
