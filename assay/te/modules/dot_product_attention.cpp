#include "assay/te/modules/dot_product_attention.h"

#include <array>
#include <utility>

#include "assay/te/check.h"
#include "assay/te/modules/observer.h"
#include "assay/te/ops/residual.h"
#include "assay/te/ops/transpose.h"

namespace assay::te {
namespace {

bool is_top_left_causal(AttentionMask mask) {
  return mask == AttentionMask::kCausal ||
         mask == AttentionMask::kPaddingCausal;
}

bool has_padding(AttentionMask mask) {
  return mask == AttentionMask::kPadding ||
         mask == AttentionMask::kPaddingCausal ||
         mask == AttentionMask::kPaddingCausalBottomRight;
}

// A step over a cache has sequences of their own lengths, whose last tokens
// are the new ones.
AttentionMask mask_over_cache(AttentionMask mask, std::string_view module) {
  switch (mask) {
    case AttentionMask::kNone:
    case AttentionMask::kPadding:
      return AttentionMask::kPadding;
    case AttentionMask::kArbitrary:
      fail(module, "attn_mask_type", "arbitrary",
           "another mask with inference_params");
    default:
      return AttentionMask::kPaddingCausalBottomRight;
  }
}

Tensor with_shape(const Tensor& t, Shape shape) {
  Tensor out = contiguous(t);
  out.view.shape = std::move(shape);
  out.view.strides.clear();
  return out;
}

// [..., heads, dim] to [..., heads * dim].
Tensor joined_heads(const Tensor& t) {
  Shape shape = t.shape();
  const std::int64_t dim = shape.back();
  shape.pop_back();
  shape.back() *= dim;
  return with_shape(t, std::move(shape));
}

}  // namespace

void DotProductAttention::Context::visit_tensors(
    const TensorVisitor& visit) const {
  const auto inputs_of = [&](const AttentionInputs& in) {
    for (const Tensor* t : {&in.q, &in.k, &in.v}) visit(*t);
    for (const auto* t :
         {&in.mask, &in.bias, &in.alibi_slopes, &in.cu_seqlens_q,
          &in.cu_seqlens_kv, &in.cu_seqlens_q_padded, &in.cu_seqlens_kv_padded})
      if (*t) visit(**t);
  };
  inputs_of(inputs);
  const auto outputs_of = [&](const AttentionResult& r) {
    for (const Tensor* t : {&r.out, &r.lse}) visit(*t);
  };
  if (result) outputs_of(*result);
  if (cp) {
    outputs_of(cp->attention);
    if (cp->k) te::visit_tensors(*cp->k, visit);
    if (cp->v) te::visit_tensors(*cp->v, visit);
  }
  if (!fp8) return;
  inputs_of(fp8->inputs);
  for (const Tensor* t : {&fp8->out, &fp8->lse, &fp8->p, &fp8->s}) visit(*t);
}

DotProductAttention::DotProductAttention(
    std::int64_t num_attention_heads, KvChannels kv_channels,
    const DotProductAttentionOptions& options)
    : QuantizedModule("DotProductAttention", options.name, 3, "dpa"),
      heads_(num_attention_heads),
      groups_(options.num_gqa_groups > 0 ? options.num_gqa_groups
                                         : num_attention_heads),
      channels_(kv_channels),
      options_(options) {
  require(heads_ > 0, name(), "num_attention_heads", std::to_string(heads_),
          "a positive number");
  require(channels_.k > 0 && channels_.v > 0, name(), "kv_channels",
          std::to_string(channels_.k) + ", " + std::to_string(channels_.v),
          "positive sizes");
  require(heads_ % groups_ == 0, name(), "num_gqa_groups",
          std::to_string(groups_),
          "a divisor of num_attention_heads, " + std::to_string(heads_));
  require(options.attention_dropout >= 0 && options.attention_dropout < 1,
          name(), "attention_dropout",
          std::to_string(options.attention_dropout), "at least 0 and below 1");
  require(options.layer_number > 0, name(), "layer_number",
          std::to_string(options.layer_number), "1 or more");
  const int ranks = options.tp.size();
  heads_ = shard_size(name(), "num_attention_heads", heads_, ranks);
  groups_ = shard_size(name(), "num_gqa_groups", groups_, ranks);
  if (options.softmax_type != SoftmaxType::kLearnable) return;
  Parameter offset;
  offset.shape = {heads_};
  offset.device = options.device;
  offset.value = Tensor::zeros(DType::kF32, {heads_}, options.device);
  offset.tensor_model_parallel = options.tp.group != nullptr;
  offset.partition_dim = options.tp.group ? 0 : -1;
  softmax_offset_ = &add_parameter("softmax_offset", std::move(offset));
}

AttentionOptions DotProductAttention::options_of(const AttentionCall& call,
                                                 bool training) const {
  AttentionOptions o;
  o.q_format = o.kv_format = call.qkv_format.value_or(options_.qkv_format);
  o.mask = call.attn_mask_type.value_or(options_.attn_mask_type);
  const WindowSize window = call.window_size.value_or(options_.window_size);
  o.window_left = window.left;
  o.window_right = window.right;
  const auto diagonal = call.bottom_right_diagonal
                            ? call.bottom_right_diagonal
                            : options_.bottom_right_diagonal;
  // NVTE: the top-left masks overrule it; it is bottom right by default. Where
  // nothing hangs on the diagonal it is left to the mask.
  const bool hangs = window.left >= 0 || window.right >= 0;
  if (!is_top_left_causal(o.mask) && (diagonal || hangs))
    o.bottom_right = diagonal.value_or(true);
  o.scale = options_.softmax_scale;
  o.softmax = options_.softmax_type;
  o.bias = call.core_attention_bias_type;
  o.max_q = call.max_seqlen_q;
  o.max_kv = call.max_seqlen_kv;
  o.want_max_logit = options_.return_max_logit;
  if (!training || options_.attention_dropout == 0) return o;
  std::optional<RandomScope> scope;
  if (options_.tp.size() > 1) scope.emplace(kModelParallelRandom);
  const DropoutState state = next_dropout_state();
  o.dropout = options_.attention_dropout;
  o.seed = state.seed;
  o.offset = state.offset;
  return o;
}

void DotProductAttention::check_inputs(const Tensor& q, const Tensor& k,
                                       const Tensor& v,
                                       QkvFormat format) const {
  const std::size_t rank = format == QkvFormat::kThd ? 3 : 4;
  const auto check = [&](const char* what, const Tensor& t, std::int64_t heads,
                         std::int64_t channels) {
    require_rank(name(), what, t, rank);
    const auto& s = t.shape();
    require(s[rank - 2] == heads && s[rank - 1] == channels, name(), what,
            std::to_string(s[rank - 2]) + " heads of " +
                std::to_string(s[rank - 1]),
            std::to_string(heads) + " of " + std::to_string(channels));
  };
  check("query_layer", q, heads_, channels_.k);
  check("key_layer", k, groups_, channels_.k);
  check("value_layer", v, groups_, channels_.v);
}

AttentionInputs DotProductAttention::inputs_of(const Tensor& q, const Tensor& k,
                                               const Tensor& v,
                                               const AttentionOptions& options,
                                               const AttentionCall& call) {
  AttentionInputs in;
  in.q = q;
  in.k = k;
  in.v = v;
  in.bias = call.core_attention_bias;
  in.alibi_slopes = call.alibi_slopes;
  if (softmax_offset_) in.softmax_offset = *softmax_offset_->value;
  in.cu_seqlens_q = call.cu_seqlens_q;
  in.cu_seqlens_kv = call.cu_seqlens_kv;
  in.cu_seqlens_q_padded = call.cu_seqlens_q_padded;
  in.cu_seqlens_kv_padded = call.cu_seqlens_kv_padded;
  if (options.mask == AttentionMask::kArbitrary) in.mask = call.attention_mask;
  if (!has_padding(options.mask) || !call.attention_mask) return in;
  require(!call.cu_seqlens_q && !call.cu_seqlens_kv, name(), "attention_mask",
          "given beside cu_seqlens", "one of the two");
  require(options_.attention_type == AttentionType::kSelf ||
              call.attention_mask_kv.has_value(),
          name(), "attention_mask_kv", "absent",
          "that of the keys, for cross attention with padding");
  in.cu_seqlens_q = cu_seqlens_of_padding(*call.attention_mask, name());
  in.cu_seqlens_kv =
      call.attention_mask_kv
          ? cu_seqlens_of_padding(*call.attention_mask_kv, name())
          : in.cu_seqlens_q;
  return in;
}

DotProductAttention::Output DotProductAttention::infer_with_cache(
    const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options,
    const AttentionCall& call) {
  require(!fp8_attention_enabled(), name(), "inference_params",
          "given under fp8_dpa", "a recipe without fp8_dpa");
  require(cp_size() == 1, name(), "inference_params",
          "given with a context parallel group", "one of the two");
  KvCache& cache = *call.inference_params;
  const std::int64_t layer = options_.layer_number - 1;
  cache.append(layer, k, v, options.q_format);
  options.mask = mask_over_cache(options.mask, name());
  options.bottom_right = true;
  const bool sbhd = options.q_format == QkvFormat::kSbhd;
  if (sbhd) options.q_format = QkvFormat::kBshd;
  AttentionCacheExtras extras;
  extras.alibi_slopes = call.alibi_slopes;
  if (softmax_offset_) extras.softmax_offset = *softmax_offset_->value;
  AttentionResult result = attention_over_cache(
      cache, layer, sbhd ? swap_first_dims(q) : q, options, extras);
  if (sbhd) result.out = swap_first_dims(result.out);
  return {joined_heads(result.out), std::move(result.max_logit)};
}

void DotProductAttention::set_context_parallel_group(
    std::shared_ptr<Communicator> group, CpCommType comm) {
  options_.cp_group = std::move(group);
  options_.cp_comm_type = comm;
}

int DotProductAttention::cp_size() const {
  return options_.cp_group ? options_.cp_group->size() : 1;
}

int DotProductAttention::cp_rank() const {
  return options_.cp_group ? options_.cp_group->rank() : 0;
}

AttentionResult DotProductAttention::run_in_parallel(Context& context,
                                                     bool training) {
  ContextParallelOptions cp{.comm = options_.cp_comm_type};
  std::optional<QuantizedPass> pass;
  if (fp8_attention_enabled()) {
    pass.emplace(*this, training);
    cp.kv_quantizer = &pass->forward(kAttentionQkvSlot);
    context.finish = pass->backward_finish();
  }
  context.cp = context_parallel_forward(context.inputs, context.options, cp,
                                        *options_.cp_group);
  return context.cp->attention;
}

AttentionResult DotProductAttention::run(Context& context, bool training) {
  if (cp_size() > 1) return run_in_parallel(context, training);
  if (!fp8_attention_enabled()) {
    context.result = attention_forward(context.inputs, context.options);
    return *context.result;
  }
  require(!options_.return_max_logit, name(), "return_max_logit",
          "true under fp8_dpa", "false");
  QuantizedPass pass(*this, training);
  context.states = pass.states();
  context.fp8 = attention_fp8_forward(context.inputs, context.options,
                                      attention_fp8_roles(*context.states));
  context.finish = pass.backward_finish();
  return {context.fp8->out, context.fp8->lse, {}};
}

DotProductAttention::Output DotProductAttention::forward(
    const Tensor& q, const Tensor& k, const Tensor& v, Context* context,
    const AttentionCall& call) {
  const bool training = context != nullptr;
  const AttentionOptions options = options_of(call, training);
  check_inputs(q, k, v, options.q_format);
  if (call.inference_params) {
    require(!training, name(), "inference_params", "given with a context",
            "inference");
    return infer_with_cache(q, k, v, options, call);
  }
  Context once;
  Context& c = context ? *context : once;
  c = {};
  c.inputs = inputs_of(q, k, v, options, call);
  c.options = options;
  AttentionResult result;
  if (training && call.checkpoint_core_attention) {
    c.recompute = std::make_shared<RecomputePoint>();
    result = c.recompute->first([&] { return run(c, training); });
    c.result.reset();
    c.fp8.reset();
    c.cp.reset();
  } else {
    result = run(c, training);
    if (c.fp8) c.inputs = {};  // it holds them decoded
  }
  Output output{joined_heads(result.out), std::move(result.max_logit)};
  observe(*this, "output", output.out);
  return output;
}

AttentionGradients DotProductAttention::gradients(const Tensor& d_out,
                                                  const Context& c) {
  const Tensor& out = c.fp8  ? c.fp8->out
                      : c.cp ? c.cp->attention.out
                             : c.result->out;
  require(d_out.numel() == out.numel(), name(), "grad_output",
          "shape " + to_string(d_out.shape()),
          to_string(joined_heads(out).shape()));
  const Tensor d = with_shape(d_out, out.shape());
  if (c.fp8)
    return attention_fp8_backward(d, *c.fp8, c.options,
                                  attention_fp8_roles(*c.states));
  if (c.cp)
    return context_parallel_backward(d, c.inputs, *c.cp, c.options,
                                     {.comm = options_.cp_comm_type},
                                     *options_.cp_group);
  return attention_backward(d, c.inputs, out, c.result->lse, c.options);
}

AttentionGradients DotProductAttention::backward(const Tensor& d_out,
                                                 Context& context) {
  require(context.result || context.fp8 || context.cp || context.recompute,
          name(), "context", "not of a forward pass, or used up",
          "that of one");
  if (context.recompute)
    context.recompute->second([&] { return run(context, true); });
  AttentionGradients grads = gradients(d_out, context);
  if (softmax_offset_ && grads.d_softmax_offset) {
    // Parallel attention has summed it over the group, whose ranks' gradients
    // are summed again with those of all parameters.
    if (context.cp)
      grads.d_softmax_offset = constant_scale(
          *grads.d_softmax_offset, 1.0f / static_cast<float>(cp_size()));
    accumulate_grad(*softmax_offset_, *grads.d_softmax_offset);
  }
  grads.d_softmax_offset.reset();
  const auto finish = context.finish;
  context = {};
  if (finish) finish();
  for (const Tensor* t : {&grads.dq, &grads.dk, &grads.dv})
    observe(*this, "grad_input", *t);
  return grads;
}

}  // namespace assay::te
