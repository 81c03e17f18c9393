#include "assay/te/modules/multihead_attention.h"

#include <tuple>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"

namespace assay::te {
namespace {

// Where each sequence of a step goes on, int32 [batch].
Tensor start_positions(const KvCache& cache, Device device) {
  Tensor starts = Tensor::empty(DType::kI32, {cache.batch()}, device);
  for (std::int64_t b = 0; b < cache.batch(); ++b)
    starts.mutable_data<std::int32_t>()[b] =
        static_cast<std::int32_t>(cache.length_before(b));
  return starts;
}

std::string child_name(const std::string& parent, const char* child) {
  return parent + "." + child;
}

}  // namespace

void MultiheadAttention::Context::visit_tensors(
    const TensorVisitor& visit) const {
  layernorm_linear.visit_tensors(visit);
  for (const Linear::Context* c : {&linear, &key_value, &proj})
    c->visit_tensors(visit);
  q_norm.visit_tensors(visit);
  k_norm.visit_tensors(visit);
  core.visit_tensors(visit);
  if (!rotary_pos_emb) return;
  visit(rotary_pos_emb->first);
  visit(rotary_pos_emb->second);
}

MultiheadAttention::MultiheadAttention(std::int64_t hidden_size,
                                       std::int64_t num_attention_heads,
                                       const MultiheadAttentionOptions& options)
    : Module("MultiheadAttention", options.name),
      hidden_size_(hidden_size),
      heads_(num_attention_heads),
      options_(options) {
  require(hidden_size > 0, name(), "hidden_size", std::to_string(hidden_size),
          "a positive size");
  require(heads_ > 0, name(), "num_attention_heads", std::to_string(heads_),
          "a positive number");
  if (options_.kv_channels == 0) {
    require_multiple(name(), "hidden_size", hidden_size, heads_);
    options_.kv_channels = hidden_size / heads_;
  }
  if (options_.num_gqa_groups == 0) options_.num_gqa_groups = heads_;
  if (!options_.fuse_qkv_params) options_.qkv_weight_interleaved = false;
  if (!options_.set_parallel_mode) options_.tp = {};
  require(!options_.return_layernorm_output || options_.input_layernorm, name(),
          "return_layernorm_output", "true", "input_layernorm with it");

  DotProductAttentionOptions core;
  core.num_gqa_groups = options_.num_gqa_groups;
  core.attention_dropout = options_.attention_dropout;
  core.qkv_format = options_.qkv_format;
  core.attn_mask_type = options_.attn_mask_type;
  core.window_size = options_.window_size;
  core.bottom_right_diagonal = options_.bottom_right_diagonal;
  core.tp = options_.tp;
  core.layer_number = options_.layer_number;
  core.attention_type = options_.attention_type;
  core.softmax_scale = options_.softmax_scale;
  core.softmax_type = options_.softmax_type;
  core.device = options_.device;
  core.name = child_name(name(), "core_attention");
  core_attention_ =
      std::make_unique<DotProductAttention>(heads_, options_.kv_channels, core);
  order_ = {core_attention_->heads(), core_attention_->groups(),
            options_.kv_channels, options_.qkv_weight_interleaved};

  make_projections();
  if (options_.qk_norm_type != QkNormType::kNone) {
    NormModuleOptions norm;
    norm.eps = options_.qk_norm_eps;
    norm.params_dtype = options_.params_dtype;
    // Every rank has its own heads: gradients of theirs alone.
    norm.sequence_parallel = options_.tp.size() > 1;
    norm.fuse_wgrad_accumulation = options_.fuse_wgrad_accumulation;
    norm.device = options_.device;
    const auto make = [&](const char* child) {
      norm.name = child_name(name(), child);
      auto made = std::make_unique<HeadNorm>(options_.qk_norm_type,
                                             options_.kv_channels, norm);
      if (made->module()) add_child(child, *made->module());
      return made;
    };
    q_norm_ = make("q_norm");
    k_norm_ = make("k_norm");
  }
  add_child("core_attention", *core_attention_);
  add_child("proj", *proj_);
}

LinearOptions MultiheadAttention::linear_options(const char* child) const {
  LinearOptions o;
  o.bias = options_.bias;
  o.params_dtype = options_.params_dtype;
  o.init_method = options_.init_method;
  if (options_.set_parallel_mode) o.parallel_mode = ParallelMode::kColumn;
  o.tp = options_.tp;
  o.fuse_wgrad_accumulation = options_.fuse_wgrad_accumulation;
  o.delay_wgrad_compute = options_.delay_wgrad_compute;
  o.device = options_.device;
  o.name = child_name(name(), child);
  return o;
}

NormLinearOptions MultiheadAttention::layernorm_options(
    const char* child) const {
  NormLinearOptions o;
  static_cast<LinearOptions&>(o) = linear_options(child);
  o.normalization = options_.normalization;
  o.eps = options_.layernorm_epsilon;
  o.zero_centered_gamma = options_.zero_centered_gamma;
  o.return_layernorm_output = options_.return_layernorm_output;
  return o;
}

void MultiheadAttention::make_projections() {
  const std::int64_t q = options_.kv_channels * heads_;
  const std::int64_t kv = options_.kv_channels * options_.num_gqa_groups;
  const bool self = options_.attention_type == AttentionType::kSelf;
  const std::int64_t first = self ? q + 2 * kv : q;
  std::vector<std::pair<std::string, std::int64_t>> split;
  if (!options_.fuse_qkv_params) {
    split = {{"query", q}};
    if (self) split.insert(split.end(), {{"key", kv}, {"value", kv}});
  }
  if (options_.input_layernorm) {
    const char* child = self ? "layernorm_qkv" : "layernorm_query";
    NormLinearOptions o = layernorm_options(child);
    o.parameters_split = split;
    layernorm_linear_ =
        std::make_unique<LayerNormLinear>(hidden_size_, first, o);
    add_child(child, *layernorm_linear_);
  } else {
    const char* child = self ? "qkv" : "query_layer";
    LinearOptions o = linear_options(child);
    // NVTE's query_layer has its weight under its own name in both cases.
    if (self) o.parameters_split = split;
    linear_ = std::make_unique<Linear>(hidden_size_, first, o);
    add_child(child, *linear_);
  }
  if (!self) {
    LinearOptions o = linear_options("key_value");
    if (!options_.fuse_qkv_params)
      o.parameters_split = {{"key", kv}, {"value", kv}};
    key_value_ = std::make_unique<Linear>(hidden_size_, 2 * kv, o);
    add_child("key_value", *key_value_);
  }
  LinearOptions o = linear_options("proj");
  o.return_bias = options_.return_bias;
  o.init_method = options_.output_layer_init_method;
  if (options_.set_parallel_mode) o.parallel_mode = ParallelMode::kRow;
  proj_ = std::make_unique<Linear>(q, hidden_size_, o);
}

Tensor MultiheadAttention::project_input(const Tensor& x, Context* context,
                                         const MultiheadAttentionCall& call,
                                         std::optional<Tensor>* normalised) {
  const LinearCall linear_call{call.is_first_microbatch,
                               call.input_requires_grad};
  if (linear_)
    return linear_->forward(x, context ? &context->linear : nullptr,
                            linear_call);
  auto out = layernorm_linear_->forward(
      x, context ? &context->layernorm_linear : nullptr, linear_call);
  *normalised = std::move(out.layernorm_output);
  return std::move(out.output);
}

QkvTensors MultiheadAttention::project(const Tensor& x, Context* context,
                                       const MultiheadAttentionCall& call,
                                       std::optional<Tensor>* normalised) {
  if (options_.attention_type == AttentionType::kSelf) {
    require(!call.encoder_output, name(), "encoder_output", "given",
            "none with self attention");
    return split_qkv(project_input(x, context, call, normalised), order_);
  }
  if (!call.encoder_output)
    fail(name(), "encoder_output", "absent", "one with cross attention");
  QkvTensors qkv;
  std::tie(qkv.k, qkv.v) =
      split_kv(key_value_->forward(*call.encoder_output,
                                   context ? &context->key_value : nullptr,
                                   {call.is_first_microbatch, true}),
               order_);
  qkv.q =
      split_heads(project_input(x, context, call, normalised), order_.channels);
  return qkv;
}

void MultiheadAttention::rotate(QkvTensors& qkv, Context& context,
                                const MultiheadAttentionCall& call) const {
  RopeOptions o;
  o.format = call.qkv_format.value_or(options_.qkv_format);
  o.interleaved = options_.rotary_pos_interleaved;
  o.cp_size = core_attention_->cp_size();
  o.cp_rank = core_attention_->cp_rank();
  if (call.inference_params)
    o.start_positions =
        start_positions(*call.inference_params, options_.device);
  context.rotary_pos_emb = call.rotary_pos_emb;
  context.q_rope = context.k_rope = o;
  if (o.format == QkvFormat::kThd) {
    context.q_rope.cu_seqlens =
        call.cu_seqlens_q_padded ? call.cu_seqlens_q_padded : call.cu_seqlens_q;
    context.k_rope.cu_seqlens = call.cu_seqlens_kv_padded
                                    ? call.cu_seqlens_kv_padded
                                    : call.cu_seqlens_kv;
  }
  qkv.q = rope_forward(qkv.q, call.rotary_pos_emb->first, context.q_rope);
  qkv.k = rope_forward(qkv.k, call.rotary_pos_emb->second, context.k_rope);
}

void MultiheadAttention::normalise(QkvTensors& qkv, Context* context) {
  if (!q_norm_) return;
  qkv.q = q_norm_->forward(qkv.q, context ? &context->q_norm : nullptr);
  qkv.k = k_norm_->forward(qkv.k, context ? &context->k_norm : nullptr);
}

void MultiheadAttention::normalise_backward(AttentionGradients& g,
                                            Context& context) {
  if (!q_norm_) return;
  g.dq = q_norm_->backward(g.dq, context.q_norm);
  g.dk = k_norm_->backward(g.dk, context.k_norm);
}

MultiheadAttention::Output MultiheadAttention::forward(
    const Tensor& hidden_states, Context* context,
    const MultiheadAttentionCall& call) {
  if (context) *context = {};
  Output output;
  Context once;  // of RoPE without training
  QkvTensors qkv =
      project(hidden_states, context, call, &output.layernorm_output);
  if (options_.qk_norm_before_rope) normalise(qkv, context);
  if (call.rotary_pos_emb) rotate(qkv, context ? *context : once, call);
  if (!options_.qk_norm_before_rope) normalise(qkv, context);
  const Tensor core = core_attention_
                          ->forward(qkv.q, qkv.k, qkv.v,
                                    context ? &context->core : nullptr, call)
                          .out;
  output.output = proj_->forward(core, context ? &context->proj : nullptr,
                                 {call.is_first_microbatch, true});
  observe(*this, "output", output.output);
  return output;
}

MultiheadAttention::Gradients MultiheadAttention::backward(
    const Tensor& d_output, Context& context,
    const Tensor* d_layernorm_output) {
  require(!d_layernorm_output || options_.return_layernorm_output, name(),
          "d_layernorm_output", "given", "none without the output");
  const Tensor d_core = proj_->backward(d_output, context.proj);
  AttentionGradients g = core_attention_->backward(d_core, context.core);
  if (!options_.qk_norm_before_rope) normalise_backward(g, context);
  if (context.rotary_pos_emb) {
    g.dq = rope_backward(g.dq, context.rotary_pos_emb->first, context.q_rope);
    g.dk = rope_backward(g.dk, context.rotary_pos_emb->second, context.k_rope);
  }
  if (options_.qk_norm_before_rope) normalise_backward(g, context);

  Gradients out;
  out.d_core_attention_bias = std::move(g.d_bias);
  const bool self = options_.attention_type == AttentionType::kSelf;
  const Tensor d_first =
      self ? join_qkv({g.dq, g.dk, g.dv}, order_) : join_last_dims(g.dq);
  out.d_hidden_states =
      linear_ ? linear_->backward(d_first, context.linear)
              : layernorm_linear_->backward(d_first, context.layernorm_linear,
                                            d_layernorm_output);
  // What the forward began with comes last: its pass may be the region's
  // first, whose backward updates the scales of all.
  if (!self)
    out.d_encoder_output =
        key_value_->backward(join_kv(g.dk, g.dv, order_), context.key_value);
  context = {};
  observe(*this, "grad_input", out.d_hidden_states);
  return out;
}

}  // namespace assay::te
