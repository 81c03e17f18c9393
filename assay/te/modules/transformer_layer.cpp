#include "assay/te/modules/transformer_layer.h"

#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"

namespace assay::te {
namespace {

template <typename T, typename C>
T* part(C* context, T C::*member) {
  return context ? &(context->*member) : nullptr;
}

}  // namespace

void TransformerLayer::Context::visit_tensors(
    const TensorVisitor& visit) const {
  self_attention.visit_tensors(visit);
  inter_attention.visit_tensors(visit);
  mlp.visit_tensors(visit);
  layernorm.visit_tensors(visit);
  for (const auto* branch : {&self_branch, &inter_branch, &mlp_branch})
    branch->visit_tensors(visit);
}

TransformerLayer::TransformerLayer(std::int64_t hidden_size,
                                   std::int64_t ffn_hidden_size,
                                   std::int64_t num_attention_heads,
                                   const TransformerLayerOptions& options)
    : Module("TransformerLayer", options.name),
      hidden_size_(hidden_size),
      options_(options),
      post_layernorm_(options.apply_residual_connection_post_layernorm) {
  if (!options_.set_parallel_mode) options_.tp = {};
  check_options();
  make_attention(num_attention_heads);
  make_mlp(ffn_hidden_size);
  if (options_.output_layernorm) {
    NormModuleOptions norm;
    norm.eps = options_.layernorm_epsilon;
    norm.zero_centered_gamma = options_.zero_centered_gamma;
    norm.params_dtype = options_.params_dtype;
    norm.sequence_parallel = options_.tp.sequence_parallel;
    norm.fuse_wgrad_accumulation = options_.fuse_wgrad_accumulation;
    norm.device = options_.device;
    norm.name = name() + ".layernorm";
    if (options_.normalization == Normalization::kRMSNorm) {
      layernorm_ = std::make_unique<RMSNorm>(hidden_size, norm);
    } else {
      layernorm_ = std::make_unique<LayerNorm>(hidden_size, norm);
    }
    add_child("layernorm", *layernorm_);
  }
  ResidualBranch::Options branch;
  branch.dropout = static_cast<float>(options_.hidden_dropout);
  branch.batch_dim = options_.attn_input_format == QkvFormat::kSbhd ? 1 : 0;
  branch.own_rows = options_.tp.sequence_parallel && options_.tp.size() > 1;
  inter_branch_.emplace(branch);
  branch.drop_path_rate = static_cast<float>(options_.drop_path_rate);
  branch_.emplace(branch);
}

void TransformerLayer::check_options() const {
  const auto probability = [&](const char* what, double p) {
    require_value(p >= 0 && p < 1, name(), what, p, "at least 0 and below 1");
  };
  probability("hidden_dropout", options_.hidden_dropout);
  probability("drop_path_rate", options_.drop_path_rate);
  require(options_.drop_path_rate == 0 ||
              options_.attn_input_format != QkvFormat::kThd,
          name(), "drop_path_rate",
          "above 0 with thd, where samples are no dimension", "sbhd or bshd");
  if (!options_.parallel_attention_mlp) return;
  require(options_.layer_type == LayerType::kEncoder, name(),
          "parallel_attention_mlp", "true in a decoder layer", "an encoder's");
  require(!post_layernorm_, name(), "parallel_attention_mlp",
          "true with apply_residual_connection_post_layernorm",
          "one of the two");
  require(!options_.output_layernorm, name(), "parallel_attention_mlp",
          "true with output_layernorm", "one of the two");
}

MultiheadAttentionOptions TransformerLayer::attention_options() const {
  MultiheadAttentionOptions o;
  o.kv_channels = options_.kv_channels;
  o.attention_dropout = options_.attention_dropout;
  o.layernorm_epsilon = options_.layernorm_epsilon;
  o.init_method = options_.init_method;
  o.output_layer_init_method = options_.output_layer_init_method;
  o.layer_number = options_.layer_number;
  o.tp = options_.tp;
  o.set_parallel_mode = options_.set_parallel_mode;
  o.num_gqa_groups = options_.num_gqa_groups;
  o.fuse_wgrad_accumulation = options_.fuse_wgrad_accumulation;
  o.delay_wgrad_compute = options_.delay_wgrad_compute;
  o.params_dtype = options_.params_dtype;
  o.fuse_qkv_params = options_.fuse_qkv_params;
  o.zero_centered_gamma = options_.zero_centered_gamma;
  o.qkv_weight_interleaved = options_.qkv_weight_interleaved;
  o.rotary_pos_interleaved = options_.rotary_pos_interleaved;
  o.bias = options_.bias;
  o.normalization = options_.normalization;
  o.qkv_format = options_.attn_input_format;
  o.qk_norm_type = options_.qk_norm_type;
  o.qk_norm_eps = options_.qk_norm_eps;
  o.qk_norm_before_rope = options_.qk_norm_before_rope;
  o.softmax_type = options_.softmax_type;
  o.device = options_.device;
  return o;
}

void TransformerLayer::make_attention(std::int64_t heads) {
  MultiheadAttentionOptions self = attention_options();
  self.attn_mask_type = options_.self_attn_mask_type;
  self.window_size = options_.window_size;
  self.bottom_right_diagonal = options_.bottom_right_diagonal;
  self.input_layernorm = !options_.output_layernorm;
  self.return_layernorm_output = post_layernorm_ && self.input_layernorm;
  self.return_bias = !options_.parallel_attention_mlp;
  self.name = name() + ".self_attention";
  self_attention_ =
      std::make_unique<MultiheadAttention>(hidden_size_, heads, self);
  add_child("self_attention", *self_attention_);
  if (options_.layer_type != LayerType::kDecoder) return;
  MultiheadAttentionOptions inter = attention_options();
  inter.attn_mask_type = options_.enc_dec_attn_mask_type;
  inter.window_size = options_.enc_dec_window_size;
  inter.bottom_right_diagonal = options_.enc_dec_bottom_right_diagonal;
  inter.input_layernorm = true;
  inter.return_layernorm_output = post_layernorm_;
  inter.return_bias = true;
  inter.attention_type = AttentionType::kCross;
  inter.name = name() + ".inter_attention";
  inter_attention_ =
      std::make_unique<MultiheadAttention>(hidden_size_, heads, inter);
  add_child("inter_attention", *inter_attention_);
}

void TransformerLayer::make_mlp(std::int64_t ffn) {
  LayerNormMLPOptions o;
  o.bias = options_.bias;
  o.return_bias = !options_.parallel_attention_mlp;
  o.params_dtype = options_.params_dtype;
  o.init_method = options_.init_method;
  o.output_layer_init_method = options_.output_layer_init_method;
  o.tp = options_.tp;
  o.set_parallel_mode = options_.set_parallel_mode;
  o.fuse_wgrad_accumulation = options_.fuse_wgrad_accumulation;
  o.delay_wgrad_compute = options_.delay_wgrad_compute;
  o.device = options_.device;
  o.normalization = options_.normalization;
  o.eps = options_.layernorm_epsilon;
  o.zero_centered_gamma = options_.zero_centered_gamma;
  o.return_layernorm_output = post_layernorm_;
  o.activation = options_.activation;
  o.activation_params = options_.activation_params;
  o.name = name() + ".layernorm_mlp";
  mlp_ = std::make_unique<LayerNormMLP>(hidden_size_, ffn, o);
  add_child("layernorm_mlp", *mlp_);
}

void TransformerLayer::set_context_parallel_group(
    std::shared_ptr<Communicator> group, CpCommType comm) {
  for (MultiheadAttention* attention :
       {self_attention_.get(), inter_attention_.get()})
    if (attention)
      attention->core_attention().set_context_parallel_group(group, comm);
}

// x + branch(self attention); with parallel_attention_mlp the attention alone.
Tensor TransformerLayer::attend(const Tensor& x, Context* context,
                                const TransformerLayerCall& call) {
  MultiheadAttentionCall c{call.self_attention};
  c.checkpoint_core_attention |= call.checkpoint_core_attention;
  c.is_first_microbatch = call.is_first_microbatch;
  c.rotary_pos_emb = call.rotary_pos_emb;
  c.input_requires_grad = call.input_requires_grad;
  const auto out =
      self_attention_->forward(x, part(context, &Context::self_attention), c);
  if (options_.parallel_attention_mlp) return out.output;
  return branch_->forward(out.output, self_attention_->bias(),
                          out.layernorm_output.value_or(x),
                          part(context, &Context::self_branch));
}

Tensor TransformerLayer::attend_encoder(const Tensor& h, Context* context,
                                        const TransformerLayerCall& call) {
  MultiheadAttentionCall c{call.inter_attention};
  c.checkpoint_core_attention |= call.checkpoint_core_attention;
  c.encoder_output = call.encoder_output;
  c.is_first_microbatch = call.is_first_microbatch;
  const auto out =
      inter_attention_->forward(h, part(context, &Context::inter_attention), c);
  return inter_branch_->forward(out.output, inter_attention_->bias(),
                                out.layernorm_output.value_or(h),
                                part(context, &Context::inter_branch));
}

Tensor TransformerLayer::forward(const Tensor& hidden_states, Context* context,
                                 const TransformerLayerCall& call) {
  require(inter_attention_ || !call.encoder_output, name(), "encoder_output",
          "given", "none in an encoder layer");
  if (context) *context = {};
  const bool parallel = options_.parallel_attention_mlp;
  const Tensor attended = attend(hidden_states, context, call);
  Tensor h = parallel ? hidden_states : attended;
  if (inter_attention_) h = attend_encoder(h, context, call);
  const auto mlp = mlp_->forward(
      h, part(context, &Context::mlp),
      {call.is_first_microbatch, !parallel || call.input_requires_grad});
  Tensor y = parallel
                 ? branch_->forward(residual_add(attended, mlp.output), nullptr,
                                    h, part(context, &Context::mlp_branch))
                 : branch_->forward(mlp.output, mlp_->fc2_bias(),
                                    mlp.layernorm_output.value_or(h),
                                    part(context, &Context::mlp_branch));
  if (layernorm_)
    y = layernorm_->forward(y, part(context, &Context::layernorm));
  if (context) context->output = y.shape();
  observe(*this, "output", y);
  return y;
}

// The gradient of the MLP's input; with parallel_attention_mlp without the
// residual's.
Tensor TransformerLayer::backward_mlp(const Tensor& dy, Context& context) {
  const Tensor d = branch_->backward(dy, context.mlp_branch);
  if (post_layernorm_) return mlp_->backward(d, context.mlp, &dy);
  return residual_add(mlp_->backward(d, context.mlp), dy);
}

Tensor TransformerLayer::backward_encoder(const Tensor& dh, Context& context,
                                          Gradients& out) {
  const Tensor d = inter_branch_->backward(dh, context.inter_branch);
  auto g = inter_attention_->backward(d, context.inter_attention,
                                      post_layernorm_ ? &dh : nullptr);
  out.d_encoder_output = std::move(g.d_encoder_output);
  out.d_inter_attention_bias = std::move(g.d_core_attention_bias);
  return post_layernorm_ ? g.d_hidden_states
                         : residual_add(g.d_hidden_states, dh);
}

void TransformerLayer::backward_self(const Tensor& dh, Context& context,
                                     Gradients& out) {
  const Tensor d = branch_->backward(dh, context.self_branch);
  const bool through_norm = post_layernorm_ && !options_.output_layernorm;
  auto g = self_attention_->backward(d, context.self_attention,
                                     through_norm ? &dh : nullptr);
  out.d_core_attention_bias = std::move(g.d_core_attention_bias);
  out.d_hidden_states = through_norm || g.d_hidden_states.shape().empty()
                            ? std::move(g.d_hidden_states)
                            : residual_add(g.d_hidden_states, dh);
}

TransformerLayer::Gradients TransformerLayer::backward(const Tensor& d_output,
                                                       Context& context) {
  require(!context.output.empty(), name(), "context",
          "not of a forward pass, or used up", "that of one");
  require_shape(name(), "grad_output", d_output, context.output);
  Gradients out;
  const Tensor dy =
      layernorm_ ? layernorm_->backward(d_output, context.layernorm) : d_output;
  if (options_.parallel_attention_mlp) {
    const Tensor d = branch_->backward(dy, context.mlp_branch);
    const Tensor d_mlp = mlp_->backward(d, context.mlp);
    auto g = self_attention_->backward(d, context.self_attention);
    out.d_core_attention_bias = std::move(g.d_core_attention_bias);
    out.d_hidden_states = std::move(g.d_hidden_states);
    // Without a wanted input gradient a frozen norm has none either.
    if (!out.d_hidden_states.shape().empty() && !d_mlp.shape().empty())
      out.d_hidden_states =
          residual_add(residual_add(out.d_hidden_states, d_mlp), dy);
  } else {
    Tensor dh = backward_mlp(dy, context);
    if (inter_attention_) dh = backward_encoder(dh, context, out);
    backward_self(dh, context, out);
  }
  context = {};
  observe(*this, "grad_input", out.d_hidden_states);
  return out;
}

}  // namespace assay::te
