// dot_product_attention: te::DotProductAttention forward and backward.
#include "assay/te/modules/dot_product_attention.h"

#include <variant>

#include "assay/conform/engine/attention.h"
#include "assay/conform/engine/engine.h"

namespace assay::conform {
namespace {

te::DotProductAttentionOptions options_of(const AdapterCall& call) {
  te::DotProductAttentionOptions options;
  options.num_gqa_groups = call.integer("num_gqa_groups");
  options.qkv_format = te::parse_qkv_format(call.text("qkv_format"));
  options.attn_mask_type =
      te::parse_attention_mask(call.text("attn_mask_type"));
  options.softmax_type = te::parse_softmax_type(call.text("softmax_type"));
  if (call.parameters.at("softmax_scale") != Value("default"))
    options.softmax_scale = static_cast<float>(call.number("softmax_scale"));
  options.return_max_logit = call.flag("return_max_logit");
  options.device = call.device;
  return options;
}

// The recipe quantises attention itself: that is what fp8_dpa asks for.
std::optional<te::Recipe> attention_recipe(const AdapterCall& call) {
  std::optional<te::Recipe> recipe = recipe_of(call);
  if (recipe) std::visit([](auto& r) { r.fp8_dpa = true; }, *recipe);
  return recipe;
}

Object defaults_of() {
  const te::DotProductAttentionOptions d;
  const auto number_or_none = [](auto value) {
    return value ? Value(static_cast<double>(*value)) : Value();
  };
  return {
      // 0 stands for NVTE's None: as many as heads.
      {"num_gqa_groups", d.num_gqa_groups ? Value(d.num_gqa_groups) : Value()},
      {"attention_dropout", d.attention_dropout},
      {"qkv_format", AttentionNames::of(d.qkv_format)},
      {"attn_mask_type", AttentionNames::of(d.attn_mask_type)},
      {"bottom_right_diagonal",
       d.bottom_right_diagonal ? Value(*d.bottom_right_diagonal) : Value()},
      {"attention_type", AttentionNames::of(d.attention_type)},
      {"softmax_scale", number_or_none(d.softmax_scale)},
      {"softmax_type", AttentionNames::of(d.softmax_type)},
      {"return_max_logit", d.return_max_logit}};
}

}  // namespace

AdapterResult run_dot_product_attention(const AdapterCall& call) {
  te::DotProductAttention attention(
      call.integer("num_attention_heads"),
      {call.integer("channels"), call.integer("v_channels")}, options_of(call));
  load_parameters(attention, call);

  AdapterResult result;
  const std::optional<te::Recipe> recipe = attention_recipe(call);
  const te::AttentionCall arguments = attention_call(call);
  const Tensor q = shaped_tokens(call, "q", "q_lengths");
  const Tensor k = shaped_tokens(call, "k", "kv_lengths");
  const Tensor v = shaped_tokens(call, "v", "kv_lengths");
  for (int step = 1; step <= call.steps; ++step) {
    attention.zero_grad();
    te::DotProductAttention::Context context;
    te::DotProductAttention::Output y;
    with_recipe(recipe,
                [&] { y = attention.forward(q, k, v, &context, arguments); });
    te::AttentionGradients g = attention.backward(call.input("d_out"), context);
    put_step(result, call, step, "out", y.out);
    put_step(result, call, step, "grad.q", g.dq);
    put_step(result, call, step, "grad.k", g.dk);
    put_step(result, call, step, "grad.v", g.dv);
    if (call.flag("return_max_logit"))
      put_step(result, call, step, "max_logit", y.max_logit);
    if (g.d_bias) put_step(result, call, step, "grad.bias", *g.d_bias);
  }
  put_gradients(result, attention);
  put_state_dict(result, attention);
  result.contract["defaults"] = defaults_of();
  result.contract["enums"] = attention_enums();
  return result;
}

}  // namespace assay::conform
