#include "examples/train_gpt/expert_layer.h"

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/ops/residual.h"

namespace assay::train_gpt {

using namespace te;

namespace {

// Switch Transformer's (arXiv:2101.03961).
constexpr double kAuxLoss = 0.01;

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& o) {
  MultiheadAttentionOptions a;
  a.attention_dropout = o.attention_dropout;
  a.init_method = o.init_method;
  a.output_layer_init_method = o.output_layer_init_method;
  a.layer_number = o.layer_number;
  a.tp = o.tp;
  a.set_parallel_mode = o.set_parallel_mode;
  a.num_gqa_groups = o.num_gqa_groups;
  a.fuse_wgrad_accumulation = o.fuse_wgrad_accumulation;
  a.params_dtype = o.params_dtype;
  a.return_bias = true;  // the residual branch adds it
  a.input_layernorm = true;
  return a;
}

NormModuleOptions norm_options(const TransformerLayerOptions& o) {
  NormModuleOptions n;
  n.params_dtype = o.params_dtype;
  n.sequence_parallel = o.tp.sequence_parallel;
  n.fuse_wgrad_accumulation = o.fuse_wgrad_accumulation;
  return n;
}

MoEOptions moe_options(const TransformerLayerOptions& o,
                       const ExpertOptions& experts) {
  require(o.tp.size() == 1 || o.tp.sequence_parallel, "ExpertLayer", "tp",
          std::to_string(o.tp.size()) + " ranks without sequence parallelism",
          "sequence parallelism, which gives each rank tokens of its own");
  MoEOptions m;
  m.num_experts = experts.experts;
  m.router.topk = experts.topk;
  m.aux_loss_coeff = kAuxLoss;
  m.params_dtype = o.params_dtype;
  m.init_method = o.init_method;
  m.output_layer_init_method = o.output_layer_init_method;
  m.fuse_wgrad_accumulation = o.fuse_wgrad_accumulation;
  if (o.tp.size() > 1) m.expert_parallel_group = o.tp.group;
  return m;
}

ResidualBranch::Options branch_options(const TransformerLayerOptions& o) {
  ResidualBranch::Options b;
  b.dropout = static_cast<float>(o.hidden_dropout);
  b.own_rows = o.tp.sequence_parallel && o.tp.size() > 1;
  return b;
}

}  // namespace

void ExpertLayer::Context::visit_tensors(const TensorVisitor& visit) const {
  self_attention.visit_tensors(visit);
  norm.visit_tensors(visit);
  moe.visit_tensors(visit);
  attention_branch.visit_tensors(visit);
  moe_branch.visit_tensors(visit);
}

ExpertLayer::ExpertLayer(std::int64_t hidden_size, std::int64_t ffn_hidden_size,
                         std::int64_t heads,
                         const TransformerLayerOptions& options,
                         const ExpertOptions& experts)
    : Module("ExpertLayer", options.name),
      self_attention_(hidden_size, heads, attention_options(options)),
      norm_(hidden_size, norm_options(options)),
      moe_(hidden_size, ffn_hidden_size, moe_options(options, experts)),
      branch_(branch_options(options)),
      d_balancing_loss_(experts.d_balancing_loss) {
  add_child("self_attention", self_attention_);
  add_child("pre_mlp_layernorm", norm_);
  add_child("mlp", moe_);
  if (options.tp.size() == 1) return;
  // Each rank has experts of its own, and tokens of its own for the router.
  for (const NamedParameter& p : moe_.parameters()) {
    const bool routes = p.name.starts_with("router.");
    p.parameter->sequence_parallel = routes;
    p.parameter->tensor_model_parallel = !routes;
  }
}

Tensor ExpertLayer::forward(const Tensor& x, Context* context,
                            const TransformerLayerCall& call) {
  Context inference;
  Context& c = context ? *context : inference;
  MultiheadAttentionCall attention{call.self_attention};
  attention.checkpoint_core_attention = call.checkpoint_core_attention;
  attention.is_first_microbatch = call.is_first_microbatch;
  attention.rotary_pos_emb = call.rotary_pos_emb;
  const Tensor attended =
      self_attention_
          .forward(x, context ? &c.self_attention : nullptr, attention)
          .output;
  const Tensor h = branch_.forward(attended, self_attention_.bias(), x,
                                   context ? &c.attention_branch : nullptr);
  const Tensor normed = norm_.forward(h, context ? &c.norm : nullptr);
  const Tensor mixed =
      moe_.forward(normed, context ? &c.moe : nullptr,
                   {.is_first_microbatch = call.is_first_microbatch})
          .output;
  Tensor y =
      branch_.forward(mixed, nullptr, h, context ? &c.moe_branch : nullptr);
  observe(*this, "output", y);
  return y;
}

ExpertLayer::Gradients ExpertLayer::backward(const Tensor& dy,
                                             Context& context) {
  Tensor d = branch_.backward(dy, context.moe_branch);
  d = norm_.backward(moe_.backward(d, context.moe, d_balancing_loss_),
                     context.norm);
  const Tensor dh = residual_add(d, dy);
  d = branch_.backward(dh, context.attention_branch);
  d = self_attention_.backward(d, context.self_attention).d_hidden_states;
  Gradients out{residual_add(d, dh)};
  observe(*this, "grad_input", out.d_hidden_states);
  return out;
}

}  // namespace assay::train_gpt
