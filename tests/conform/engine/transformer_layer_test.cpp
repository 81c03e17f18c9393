// The adapter of transformer_layer against torch 2.13 in float64
// (torch.nn.functional.layer_norm, scaled_dot_product_attention, linear,
// autograd): hidden size 4, two heads, three tokens.
#include <gtest/gtest.h>

#include "tests/conform/engine/linear_case.h"

namespace assay::conform {
namespace {

using te::error_of;

AdapterCall layer_case(Parameters other, TensorMap inputs) {
  AdapterCall call =
      case_of("transformer_layer", std::move(other), std::move(inputs));
  for (const char* flag :
       {"bias", "zero_centered_gamma",
        "apply_residual_connection_post_layernorm", "output_layernorm",
        "parallel_attention_mlp", "fuse_qkv_params", "qkv_weight_interleaved",
        "rotary", "rotary_pos_interleaved", "qk_norm_before_rope"})
    call.parameters.try_emplace(flag, false);
  const Parameters sizes = {{"sequence", 3},
                            {"batch", 1},
                            {"hidden_size", 4},
                            {"ffn_hidden_size", 3},
                            {"num_attention_heads", 2},
                            {"num_gqa_groups", 2},
                            {"layer_type", "encoder"},
                            {"normalization", "LayerNorm"},
                            {"layernorm_epsilon", 1e-5},
                            {"self_attn_mask_type", "causal"},
                            {"window_left", -1},
                            {"attn_input_format", "sbhd"},
                            {"qk_norm_type", "none"}};
  for (const auto& [name, value] : sizes)
    call.parameters.try_emplace(name, value);
  return call;
}

void add_norm(TensorMap& inputs, const std::string& prefix) {
  inputs[prefix + "weight"] = pattern({4}, 0.125, 1);
  inputs[prefix + "bias"] = pattern({4}, 0.25);
}

// One group of keys for both heads, RoPE, one weight of q, k and v: its rows
// are those of head 0, head 1, key, value.
TEST(TransformerLayerAdapter, EncoderAsTorch) {
  TensorMap inputs = {{"x", pattern({3, 1, 4})},
                      {"dy", pattern({3, 1, 4}, 0.5)}};
  const std::string qkv = "self_attention.layernorm_qkv.";
  add_norm(inputs, qkv + "layer_norm_");
  inputs[qkv + "weight"] = pattern({8, 4}, 0.5);
  inputs[qkv + "bias"] = pattern({8}, 0.5);
  inputs["self_attention.proj.weight"] = pattern({4, 4}, 0.5);
  inputs["self_attention.proj.bias"] = pattern({4}, 0.5);
  add_norm(inputs, "layernorm_mlp.layer_norm_");
  inputs["layernorm_mlp.fc1_weight"] = pattern({3, 4}, 0.5);
  inputs["layernorm_mlp.fc1_bias"] = pattern({3}, 0.5);
  inputs["layernorm_mlp.fc2_weight"] = pattern({4, 3}, 0.5);
  inputs["layernorm_mlp.fc2_bias"] = pattern({4}, 0.5);
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, layer_case({{"bias", true},
                                   {"num_gqa_groups", 1},
                                   {"fuse_qkv_params", true},
                                   {"qkv_weight_interleaved", true},
                                   {"rotary", true},
                                   {"activation", "gelu"}},
                                  inputs));
    expect_values(r, "y",
                  {-3.74995541, 2.28507079, -0.498169361, 3.64393851,
                   -1.62179272, 0.584647055, 0.828852294, 1.86134909,
                   -4.7173592, 3.07909669, -0.681651014, 1.66092534});
    expect_values(r, "grad.x",
                  {-1.20331696, 1.0367642, 0.238310549, -0.0717577888,
                   0.3157863, -0.656585705, 0.317458593, 0.273340812,
                   -0.741843438, 0.404676773, -0.0434324627, -0.494400873});
    expect_values(r, "grad.self_attention.layernorm_qkv.weight",
                  {-0.223471797,  0.414403364,  0.0306837498,    -0.215607753,
                   0.102934229,   -0.210493227, -7.41027307e-05, 0.101960022,
                   -0.0123256246, 0.0797993973, -0.0391257086,   -0.0195800225,
                   0.0221683812,  0.0592629789, -0.0749927626,   0.00783658771,
                   -0.143605751,  0.160368184,  -0.14605862,     0.196926429,
                   0.0744350045,  -0.294432318, 0.182487479,     -0.0141601868,
                   -1.39317636,   0.967728938,  -0.837508172,    1.78001627,
                   1.22675691,    -1.01425443,  0.379016695,     -0.914786136});
    expect_values(r, "grad.self_attention.proj.bias",
                  {-0.970741113, 0.22029332, 0.18864242, -0.0631946268});
    expect_values(r, "grad.layernorm_mlp.fc1_weight",
                  {-1.31948027, 0.971242456, -0.703969473, 1.49295085,
                   0.0452984235, -0.00486927364, 0.00653683827, -0.0603236135,
                   -0.553485475, 0.521847664, -0.120764988, 0.291983715});
    expect_values(r, "grad.layernorm_mlp.fc2_bias", {-1, 0.25, 0.125, 0});
  }
}

// The residual connections take the norms' results; a weight each for q, k
// and v, and the second attention's keys come from the encoder.
TEST(TransformerLayerAdapter, DecoderAsTorch) {
  TensorMap inputs = {{"x", pattern({3, 1, 4})},
                      {"encoder_output", pattern({3, 1, 4}, 0.5, 0.25)},
                      {"dy", pattern({3, 1, 4}, 0.5)}};
  const std::string qkv = "self_attention.layernorm_qkv.";
  add_norm(inputs, qkv + "layer_norm_");
  for (const char* part : {"query_", "key_", "value_"})
    inputs[qkv + part + "weight"] = pattern({4, 4}, 0.5);
  const std::string inter = "inter_attention.";
  add_norm(inputs, inter + "layernorm_query.layer_norm_");
  for (const char* part : {"layernorm_query.query_", "key_value.key_",
                           "key_value.value_", "proj."})
    inputs[inter + part + "weight"] = pattern({4, 4}, 0.5);
  inputs["self_attention.proj.weight"] = pattern({4, 4}, 0.5);
  add_norm(inputs, "layernorm_mlp.layer_norm_");
  inputs["layernorm_mlp.fc1_weight"] = pattern({3, 4}, 0.5);
  inputs["layernorm_mlp.fc2_weight"] = pattern({4, 3}, 0.5);
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(
        device, layer_case({{"layer_type", "decoder"},
                            {"apply_residual_connection_post_layernorm", true},
                            {"activation", "silu"}},
                           inputs));
    expect_values(r, "y",
                  {-2.74412459, 2.13214334, 0.304357374, 2.61791167,
                   0.689179946, -1.52719164, 0.778570235, 0.243384838,
                   -2.75618159, 2.38070357, 0.043961367, 1.39087822});
    expect_values(r, "grad.x",
                  {-0.00260287356, -0.11702883, 0.0538751611, 0.0657565429,
                   -0.153171013, 0.126064442, 0.132836894, -0.105730323,
                   0.313615246, -0.125783672, 0.173166733, -0.360998307});
    expect_values(r, "grad.encoder_output",
                  {0.130689215, -0.0834920181, 0.0475925281, -0.0965685266,
                   -0.0484061755, 0.0408302308, -0.099591595, -0.010259199,
                   0.0500743894, -0.0335867089, -0.029269214, 0.0636736219});
    expect_values(r, "grad.self_attention.layernorm_qkv.query_weight",
                  {0.128507652, -0.241299482, -0.0154967766, 0.124389994,
                   -0.0478322548, 0.0892752504, 0.00615492013, -0.0462267508,
                   0.0321432739, -0.0825358049, 0.0120231544, 0.0341079942,
                   0.000268812094, 0.0696520431, -0.050322528, -0.00921201272});
    expect_values(r, "grad.inter_attention.key_value.value_weight",
                  {0.0535996716, -0.0873644006, -0.0136876288, -0.100325557,
                   -0.0311880182, 0.0579543609, 0.0192231846, 0.0678130976,
                   0.0369249908, -0.0874139278, -0.0303623097, -0.016704517,
                   0.0177545336, -0.106199111, -0.111707777, -0.0756263597});
    expect_values(r, "grad.layernorm_mlp.layer_norm_weight",
                  {2.4984442, 1.60524208, 0.887291658, 1.03765779});
  }
}

TEST(TransformerLayerAdapter, RefusesWhatContradictsItself) {
  EXPECT_NE(error_of([] {
              run_on(Device::kCpu,
                     layer_case({{"activation", "gelu"},
                                 {"layer_type", "decoder"},
                                 {"parallel_attention_mlp", true}},
                                {}));
            }),
            "");
  EXPECT_NE(
      error_of([] {
        run_on(Device::kCpu,
               layer_case({{"activation", "gelu"}, {"num_gqa_groups", 3}}, {}));
      }),
      "");
}

}  // namespace
}  // namespace assay::conform
