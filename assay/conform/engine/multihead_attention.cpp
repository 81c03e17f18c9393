// multihead_attention: te::MultiheadAttention forward and backward.
#include "assay/te/modules/multihead_attention.h"

#include <fmt/format.h>

#include "assay/base/error.h"
#include "assay/conform/engine/attention.h"
#include "assay/conform/engine/engine.h"

namespace assay::conform {
namespace {

te::MultiheadAttentionOptions options_of(const AdapterCall& call) {
  te::MultiheadAttentionOptions o;
  o.kv_channels = call.integer("kv_channels");
  o.attention_dropout = 0;
  o.num_gqa_groups = call.integer("num_gqa_groups");
  o.params_dtype = call.dtype();
  o.input_layernorm = call.flag("input_layernorm");
  o.return_layernorm_output = call.flag("return_layernorm_output");
  o.attention_type = call.text("attention_type") == "cross"
                         ? te::AttentionType::kCross
                         : te::AttentionType::kSelf;
  o.fuse_qkv_params = call.flag("fuse_qkv_params");
  o.zero_centered_gamma = call.flag("zero_centered_gamma");
  o.qkv_weight_interleaved = call.flag("qkv_weight_interleaved");
  o.rotary_pos_interleaved = call.flag("rotary_pos_interleaved");
  o.bias = call.flag("bias");
  o.normalization = call.text("normalization") == "RMSNorm"
                        ? te::Normalization::kRMSNorm
                        : te::Normalization::kLayerNorm;
  o.qkv_format = te::parse_qkv_format(call.text("qkv_format"));
  o.attn_mask_type = te::parse_attention_mask(call.text("attn_mask_type"));
  if (call.text("qk_norm_type") != "none")
    o.qk_norm_type = te::parse_qk_norm_type(call.text("qk_norm_type"));
  o.qk_norm_before_rope = call.flag("qk_norm_before_rope");
  o.softmax_type = te::parse_softmax_type(call.text("softmax_type"));
  o.device = call.device;
  return o;
}

// [positions, n] of angles, one a pair, as the table [positions, 1, 1, 2 n]:
// both halves, or each angle twice.
Tensor rope_table(const AdapterCall& call, const Tensor& given) {
  const Tensor angles = contiguous(given);
  const std::int64_t rows = angles.shape()[0], n = angles.shape()[1];
  Tensor table = Tensor::empty(DType::kF32, {rows, 1, 1, 2 * n}, call.device);
  const bool interleaved = call.flag("rotary_pos_interleaved");
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const std::int64_t row = i / n * 2 * n, c = i % n;
    float* to = table.mutable_data<float>() + row;
    to[interleaved ? 2 * c : c] = angles.data<float>()[i];
    to[interleaved ? 2 * c + 1 : c + n] = angles.data<float>()[i];
  }
  return table;
}

te::MultiheadAttentionCall call_of(const AdapterCall& call) {
  te::MultiheadAttentionCall arguments;
  static_cast<te::AttentionCall&>(arguments) = attention_call(call);
  if (call.text("attention_type") == "cross")
    arguments.encoder_output =
        shaped_tokens(call, "encoder_output", "kv_lengths");
  if (const Tensor* angles = call.find_input("angles")) {
    const Tensor table = rope_table(call, *angles);
    arguments.rotary_pos_emb = te::RotaryPosEmb{table, table};
  }
  return arguments;
}

Object defaults_of() {
  const te::MultiheadAttentionOptions d;
  return {{"attention_dropout", d.attention_dropout},
          {"attn_mask_type", AttentionNames::of(d.attn_mask_type)},
          {"return_bias", d.return_bias},
          {"return_layernorm_output", d.return_layernorm_output},
          {"input_layernorm", d.input_layernorm},
          {"attention_type", AttentionNames::of(d.attention_type)},
          {"fuse_qkv_params", d.fuse_qkv_params},
          {"zero_centered_gamma", d.zero_centered_gamma},
          {"qkv_weight_interleaved", d.qkv_weight_interleaved},
          {"rotary_pos_interleaved", d.rotary_pos_interleaved},
          {"bias", d.bias},
          {"normalization", d.normalization == te::Normalization::kRMSNorm
                                ? "RMSNorm"
                                : "LayerNorm"},
          {"qkv_format", AttentionNames::of(d.qkv_format)},
          {"qk_norm_before_rope", d.qk_norm_before_rope},
          {"softmax_type", AttentionNames::of(d.softmax_type)}};
}

}  // namespace

AdapterResult run_multihead_attention(const AdapterCall& call) {
  te::MultiheadAttention layer(call.integer("hidden_size"),
                               call.integer("num_attention_heads"),
                               options_of(call));
  load_parameters(layer, call);

  AdapterResult result;
  const std::optional<te::Recipe> recipe = recipe_of(call);
  const te::MultiheadAttentionCall arguments = call_of(call);
  const Tensor x = shaped_tokens(call, "x", "q_lengths");
  const Tensor dy = shaped_tokens(call, "dy", "q_lengths");
  std::optional<Tensor> d_norm;
  if (call.flag("return_layernorm_output"))
    d_norm = shaped_tokens(call, "d_layernorm_output", "q_lengths");
  for (int step = 1; step <= call.steps; ++step) {
    layer.zero_grad();
    te::MultiheadAttention::Context context;
    te::MultiheadAttention::Output y;
    with_recipe(recipe, [&] { y = layer.forward(x, &context, arguments); });
    const te::MultiheadAttention::Gradients g =
        layer.backward(dy, context, d_norm ? &*d_norm : nullptr);
    put_step(result, call, step, "y", y.output);
    put_step(result, call, step, "grad.x", g.d_hidden_states);
    if (y.layernorm_output)
      put_step(result, call, step, "layernorm_output", *y.layernorm_output);
    if (g.d_encoder_output)
      put_step(result, call, step, "grad.encoder_output", *g.d_encoder_output);
    if (g.d_core_attention_bias)
      put_step(result, call, step, "grad.bias", *g.d_core_attention_bias);
  }
  put_gradients(result, layer);
  put_state_dict(result, layer);
  result.contract["defaults"] = defaults_of();
  return result;
}

}  // namespace assay::conform
