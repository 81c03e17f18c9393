// The adapter of multihead_attention: order of rows, RoPE, norms by hand;
// gradients by differences; refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "tests/conform/engine/attention_case.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::expect_close;
using te::make_tensor;
using te::normal_tensor;
using te::values_of;
using Values = std::vector<double>;

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

AdapterCall layer_case(Parameters other) {
  AdapterCall call = attention_case({{"hidden_size", 1},
                                     {"kv_channels", 1},
                                     {"attention_type", "self"},
                                     {"input_layernorm", false},
                                     {"return_layernorm_output", false},
                                     {"normalization", "LayerNorm"},
                                     {"zero_centered_gamma", false},
                                     {"fuse_qkv_params", true},
                                     {"qkv_weight_interleaved", true},
                                     {"bias", false},
                                     {"rotary_pos_interleaved", false},
                                     {"qk_norm_type", "none"},
                                     {"qk_norm_before_rope", false}});
  call.module = "multihead_attention";
  for (auto& [name, value] : other) call.parameters[name] = std::move(value);
  return call;
}

// One token, two heads that give 10 x and 20 x.
TEST(MultiheadAttentionAdapter, RowsOfAFusedWeight) {
  for (const Device device : kDevices) {
    for (const bool interleaved : {true, false}) {
      AdapterCall call = layer_case({{"num_attention_heads", 2},
                                     {"num_gqa_groups", 2},
                                     {"qkv_weight_interleaved", interleaved}});
      const Values rows =
          interleaved ? Values{0, 0, 10, 0, 0, 20} : Values{0, 0, 0, 0, 10, 20};
      call.inputs = {{"x", make_tensor({3}, {1, 1})},
                     {"dy", make_tensor({1}, {1, 1})},
                     {"qkv.weight", make_tensor(rows, {6, 1})},
                     {"proj.weight", make_tensor({1, 100}, {1, 2})}};
      const AdapterResult r = run_on(device, call);
      EXPECT_EQ(values_of(r.outputs.at("y")), Values{30 + 6000});
      EXPECT_EQ(values_of(r.outputs.at("grad.x")), Values{10 + 2000});
      EXPECT_EQ(values_of(r.outputs.at("grad.proj.weight")), (Values{30, 60}));
    }
  }
}

// k = (1, 0) at positions 0 and 1, turned by 0 and 60 degrees, q by the same:
// the second query has logits 2 log 3 (cos 60, 1), so p = 1/4 and 3/4.
TEST(MultiheadAttentionAdapter, RopeTurnsQueriesAndKeys) {
  const double size = 2 * std::log(3.0) * std::sqrt(2.0);
  for (const Device device : kDevices) {
    for (const bool interleaved : {false, true}) {
      AdapterCall call = layer_case({{"kv_channels", 2},
                                     {"hidden_size", 2},
                                     {"q_lengths", List{2}},
                                     {"kv_lengths", List{2}},
                                     {"qkv_format", "bshd"},
                                     {"attention_type", "cross"},
                                     {"rotary_pos_interleaved", interleaved}});
      const Tensor identity = make_tensor({1, 0, 0, 1}, {2, 2});
      call.inputs = {
          {"x", make_tensor({size, 0, size, 0}, {2, 2})},
          {"encoder_output", make_tensor({1, 0, 1, 8}, {2, 2})},
          {"dy", Tensor::zeros(DType::kF32, {2, 2})},
          {"angles", make_tensor({0, std::numbers::pi / 3}, {2, 1})},
          {"query_layer.weight", identity},
          // k = (e0, 0), v = (e1, 0)
          {"key_value.weight", make_tensor({1, 0, 0, 0, 0, 1, 0, 0}, {4, 2})},
          {"proj.weight", identity}};
      expect_close(run_on(device, call).outputs.at("y"),
                   make_tensor({2, 0, 6, 0}, {1, 2, 2}), 1e-6, 1e-6, "y");
    }
  }
}

// (3, 1) normalised is (1, -1); twice that and 0.5 more is what goes on.
TEST(MultiheadAttentionAdapter, NormBeforeTheProjection) {
  for (const Device device : kDevices) {
    AdapterCall call = layer_case({{"hidden_size", 2},
                                   {"input_layernorm", true},
                                   {"return_layernorm_output", true},
                                   {"zero_centered_gamma", true}});
    call.inputs = {
        {"x", make_tensor({3, 1}, {1, 2})},
        {"dy", make_tensor({0, 0}, {1, 2})},
        {"d_layernorm_output", make_tensor({1, 1}, {1, 2})},
        {"layernorm_qkv.layer_norm_weight", make_tensor({1, 1}, {2})},
        {"layernorm_qkv.layer_norm_bias", make_tensor({.5, .5}, {2})},
        {"layernorm_qkv.weight", make_tensor({0, 0, 0, 0, 1, 0}, {3, 2})},
        {"proj.weight", make_tensor({1, 10}, {2, 1})}};
    const AdapterResult r = run_on(device, call);
    expect_close(r.outputs.at("layernorm_output"),
                 make_tensor({2.5, -1.5}, {1, 1, 2}), 1e-4, 0, "norm");
    expect_close(r.outputs.at("y"), make_tensor({2.5, 25}, {1, 1, 2}), 1e-4, 0,
                 "y");
    EXPECT_EQ(values_of(r.outputs.at("grad.layernorm_qkv.layer_norm_bias")),
              (Values{1, 1}));
  }
}

TEST(MultiheadAttentionAdapter, GradientsAreSlopes) {
  AdapterCall call = layer_case({{"hidden_size", 4},
                                 {"kv_channels", 2},
                                 {"num_attention_heads", 2},
                                 {"q_lengths", List{3}},
                                 {"kv_lengths", List{3}},
                                 {"qk_norm_type", "RMSNorm"},
                                 {"attn_mask_type", "causal"},
                                 {"window_right", 0},
                                 {"fuse_qkv_params", false},
                                 {"bias", true}});
  call.inputs = {{"x", normal_tensor({3, 4}, DType::kF32, 1)},
                 {"dy", normal_tensor({3, 4}, DType::kF32, 2)},
                 {"angles", normal_tensor({3, 1}, DType::kF32, 3)},
                 {"qkv.query_weight", normal_tensor({4, 4}, DType::kF32, 4)},
                 {"qkv.key_weight", normal_tensor({2, 4}, DType::kF32, 5)},
                 {"qkv.value_weight", normal_tensor({2, 4}, DType::kF32, 6)},
                 {"qkv.query_bias", normal_tensor({4}, DType::kF32, 7)},
                 {"qkv.key_bias", normal_tensor({2}, DType::kF32, 8)},
                 {"qkv.value_bias", normal_tensor({2}, DType::kF32, 9)},
                 {"q_norm.weight", normal_tensor({2}, DType::kF32, 10)},
                 {"k_norm.weight", normal_tensor({2}, DType::kF32, 11)},
                 {"proj.weight", normal_tensor({4, 4}, DType::kF32, 12)},
                 {"proj.bias", normal_tensor({4}, DType::kF32, 13)}};
  const AdapterResult r = run_on(Device::kReference, call);
  for (const auto& [name, given] : call.inputs) {
    if (name == "dy" || name == "angles") continue;
    const auto y = [&, name = name](const Tensor& moved) {
      AdapterCall other = call;
      other.inputs[name] = moved;
      return run_on(Device::kReference, other).outputs.at("y");
    };
    te::expect_gradient(y, given, call.inputs.at("dy"),
                        r.outputs.at("grad." + name), 2e-2, name);
  }
}

TEST(MultiheadAttentionAdapter, ContractAndRefusals) {
  AdapterCall call = layer_case({});
  call.inputs = {{"x", make_tensor({3}, {1, 1})},
                 {"dy", make_tensor({1}, {1, 1})},
                 {"qkv.weight", make_tensor({0, 0, 1}, {3, 1})},
                 {"proj.weight", make_tensor({1}, {1, 1})}};
  const AdapterResult r = run_on(Device::kCpu, call);
  EXPECT_EQ(*r.contract.at("defaults").find("attention_dropout"), Value(0.1));
  const Value& names = r.contract.at("state_dict");
  EXPECT_EQ(*names.find("qkv.weight"), (Value(List{"float32", List{3, 1}})));
  call.inputs.erase("proj.weight");
  EXPECT_NE(error_of([&] { run_on(Device::kCpu, call); }).find("proj.weight"),
            std::string::npos);
  call.parameters["num_gqa_groups"] = 3;
  error_of([&] { run_on(Device::kCpu, call); });
}

}  // namespace
}  // namespace assay::conform
