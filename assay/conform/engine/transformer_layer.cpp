// transformer_layer: te::TransformerLayer forward and backward, without
// dropout, whose masks are not comparable between implementations.
#include "assay/te/modules/transformer_layer.h"

#include "assay/conform/engine/linear_common.h"
#include "assay/te/ops/rope.h"

namespace assay::conform {
namespace {

// NVTE's defaults are these two; another one is only said to be another.
const char* mask_name(te::AttentionMask mask) {
  if (mask == te::AttentionMask::kCausal) return "causal";
  return mask == te::AttentionMask::kNone ? "no_mask" : "another";
}

te::TransformerLayerOptions options_of(const AdapterCall& call) {
  te::TransformerLayerOptions o;
  o.num_gqa_groups = call.integer("num_gqa_groups");
  o.layernorm_epsilon = static_cast<float>(call.number("layernorm_epsilon"));
  o.hidden_dropout = 0;
  o.attention_dropout = 0;
  o.self_attn_mask_type =
      te::parse_attention_mask(call.text("self_attn_mask_type"));
  o.window_size.left = call.integer("window_left");
  o.params_dtype = call.dtype();
  o.apply_residual_connection_post_layernorm =
      call.flag("apply_residual_connection_post_layernorm");
  o.output_layernorm = call.flag("output_layernorm");
  o.parallel_attention_mlp = call.flag("parallel_attention_mlp");
  if (call.text("layer_type") == "decoder")
    o.layer_type = te::LayerType::kDecoder;
  o.fuse_qkv_params = call.flag("fuse_qkv_params");
  o.rotary_pos_interleaved = call.flag("rotary_pos_interleaved");
  o.zero_centered_gamma = call.flag("zero_centered_gamma");
  o.qkv_weight_interleaved = call.flag("qkv_weight_interleaved");
  o.bias = call.flag("bias");
  o.activation = activation_of(call);
  o.normalization = te::parse_normalization(call.text("normalization"));
  o.attn_input_format = te::parse_qkv_format(call.text("attn_input_format"));
  const std::string& norm = call.text("qk_norm_type");
  o.qk_norm_type = te::parse_qk_norm_type(norm == "none" ? "" : norm);
  o.qk_norm_before_rope = call.flag("qk_norm_before_rope");
  o.device = call.device;
  return o;
}

te::TransformerLayerCall call_of(const AdapterCall& call, int step) {
  te::TransformerLayerCall c;
  if (call.text("layer_type") == "decoder")
    c.encoder_output = step_input(call, "encoder_output", step);
  if (call.flag("rotary")) {
    te::RopeFrequencies angles;
    angles.dim =
        call.integer("hidden_size") / call.integer("num_attention_heads");
    angles.interleaved = call.flag("rotary_pos_interleaved");
    Tensor table = te::rope_frequencies(angles, call.integer("sequence"));
    table.device = call.device;
    c.rotary_pos_emb = {table, table};
  }
  return c;
}

Object defaults() {
  const te::TransformerLayerOptions o;
  return {{"layernorm_epsilon", decimal(o.layernorm_epsilon)},
          {"hidden_dropout", o.hidden_dropout},
          {"attention_dropout", o.attention_dropout},
          {"self_attn_mask_type", mask_name(o.self_attn_mask_type)},
          {"enc_dec_attn_mask_type", mask_name(o.enc_dec_attn_mask_type)},
          {"apply_residual_connection_post_layernorm",
           o.apply_residual_connection_post_layernorm},
          {"output_layernorm", o.output_layernorm},
          {"parallel_attention_mlp", o.parallel_attention_mlp},
          {"drop_path_rate", o.drop_path_rate},
          {"fuse_qkv_params", o.fuse_qkv_params},
          {"rotary_pos_interleaved", o.rotary_pos_interleaved},
          {"zero_centered_gamma", o.zero_centered_gamma},
          {"qkv_weight_interleaved", o.qkv_weight_interleaved},
          {"bias", o.bias},
          {"activation", te::activation_name(o.activation)},
          {"qk_norm_eps", decimal(o.qk_norm_eps)},
          {"qk_norm_before_rope", o.qk_norm_before_rope}};
}

}  // namespace

AdapterResult run_transformer_layer(const AdapterCall& call) {
  te::TransformerLayer layer(
      call.integer("hidden_size"), call.integer("ffn_hidden_size"),
      call.integer("num_attention_heads"), options_of(call));
  AdapterResult result;
  const std::optional<te::Recipe> recipe = linear_recipe(call);
  run_steps(call, layer, result, [&](int step) {
    te::TransformerLayer::Context context;
    Tensor y;
    with_recipe(recipe, [&] {
      y = layer.forward(step_input(call, "x", step), &context,
                        call_of(call, step));
    });
    put_step(result, call, step, "y", y);
    const auto gradients =
        layer.backward(step_input(call, "dy", step), context);
    put_step(result, call, step, "grad.x", gradients.d_hidden_states);
    if (gradients.d_encoder_output)
      put_step(result, call, step, "grad.encoder_output",
               *gradients.d_encoder_output);
  });
  result.contract["defaults"] = defaults();
  return result;
}

}  // namespace assay::conform
