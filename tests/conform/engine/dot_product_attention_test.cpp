// The adapter of dot_product_attention: values by hand, gradients by
// differences, refusals.
#include <gtest/gtest.h>

#include <cmath>
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

// q = 0: every query takes the mean of the values it sees.
AdapterCall mean_of_values(Parameters parameters, std::int64_t queries,
                           std::int64_t heads, const Values& values,
                           std::int64_t groups = 1) {
  parameters["num_attention_heads"] = heads;
  parameters["num_gqa_groups"] = groups;
  AdapterCall call = attention_case(std::move(parameters));
  const auto keys = static_cast<std::int64_t>(values.size()) / groups;
  call.inputs = {{"q", Tensor::zeros(DType::kF32, {queries, heads, 1})},
                 {"k", Tensor::zeros(DType::kF32, {keys, groups, 1})},
                 {"v", make_tensor(values, {keys, groups, 1})},
                 {"d_out", Tensor::zeros(DType::kF32, {queries, heads})}};
  return call;
}

// F35: query heads 0 and 1 share the first group's keys.
TEST(DotProductAttentionAdapter, GroupsOfHeadsAreInOrder) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, mean_of_values({}, 1, 4, {10, 20}, 2));
    EXPECT_EQ(values_of(r.outputs.at("out")), (Values{10, 10, 20, 20}));
  }
}

// Two queries, four keys: the diagonal of the one mask hangs at the first key,
// that of the other at the last.
TEST(DotProductAttentionAdapter, DiagonalsOfUnequalLengths) {
  const Parameters lengths = {{"q_lengths", List{2}}, {"kv_lengths", List{4}}};
  for (const Device device : kDevices) {
    Parameters p = lengths;
    p["attn_mask_type"] = "causal";
    p["window_right"] = 0;
    EXPECT_EQ(values_of(run_on(device, mean_of_values(p, 2, 1, {1, 3, 8, 20}))
                            .outputs.at("out")),
              (Values{1, 2}));
    p["attn_mask_type"] = "causal_bottom_right";
    EXPECT_EQ(values_of(run_on(device, mean_of_values(p, 2, 1, {1, 3, 8, 20}))
                            .outputs.at("out")),
              (Values{4, 8}));
    p["window_left"] = 1;
    EXPECT_EQ(values_of(run_on(device, mean_of_values(p, 2, 1, {1, 3, 8, 20}))
                            .outputs.at("out")),
              (Values{5.5, 14}));
  }
}

// Four queries, two keys, bottom right: the first two see none.
TEST(DotProductAttentionAdapter, QueriesWithoutKeysGiveZeros) {
  for (const Device device : kDevices) {
    AdapterCall call =
        mean_of_values({{"q_lengths", List{4}},
                        {"kv_lengths", List{2}},
                        {"attn_mask_type", "causal_bottom_right"},
                        {"window_right", 0}},
                       4, 1, {2, 6});
    call.inputs["d_out"] = make_tensor({1, 1, 1, 1}, {4, 1});
    const AdapterResult r = run_on(device, call);
    EXPECT_EQ(values_of(r.outputs.at("out")), (Values{0, 0, 2, 4}));
    EXPECT_EQ(values_of(r.outputs.at("grad.v")), (Values{1.5, 0.5}));
    EXPECT_EQ(values_of(r.outputs.at("grad.q")), (Values{0, 0, 0, 0}));
  }
}

// Lengths 1 and 2 with three tokens of room behind each.
TEST(DotProductAttentionAdapter, PackedSequencesWithRoomBetween) {
  const Parameters p = {{"q_lengths", List{1, 2}},
                        {"kv_lengths", List{1, 2}},
                        {"qkv_format", "thd"},
                        {"attn_mask_type", "padding"},
                        {"pad_between_seqs", true}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(
        device, mean_of_values(p, 9, 1, {5, 99, 99, 99, 1, 2, 99, 99, 99}));
    EXPECT_EQ(values_of(r.outputs.at("out")),
              (Values{5, 0, 0, 0, 1.5, 1.5, 0, 0, 0}));
  }
}

// x = log 3, v = 8: 3 / (3 + 1) of it beside a sink of 0, 3 / (3 + 3) beside
// log 3. d sink = -p_sink (d_out out) = -0.5 * 4.
TEST(DotProductAttentionAdapter, SinksTakePart) {
  for (const Device device : kDevices) {
    AdapterCall call = mean_of_values(
        {{"softmax_type", "off-by-one"}, {"return_max_logit", true}}, 1, 1,
        {8});
    call.inputs["q"] = make_tensor({1}, {1, 1, 1});
    call.inputs["k"] = make_tensor({std::log(3.0)}, {1, 1, 1});
    call.inputs["d_out"] = make_tensor({1}, {1, 1});
    AdapterResult r = run_on(device, call);
    expect_close(r.outputs.at("out"), make_tensor({6}, {1, 1, 1}), 1e-6, 0,
                 "off by one");
    expect_close(r.outputs.at("max_logit"), make_tensor({std::log(3.0)}, {1}),
                 1e-6, 0, "max_logit");
    call.parameters["softmax_type"] = "learnable";
    call.inputs["softmax_offset"] = make_tensor({std::log(3.0)}, {1});
    r = run_on(device, call);
    expect_close(r.outputs.at("out"), make_tensor({4}, {1, 1, 1}), 1e-6, 0,
                 "learnable");
    expect_close(r.outputs.at("grad.softmax_offset"), make_tensor({-2}, {1}),
                 1e-6, 0, "sink");
  }
}

// scale (q k + bias) against scale q k + bias, and its gradient.
TEST(DotProductAttentionAdapter, BiasBeforeAndAfterTheScale) {
  for (const Device device : kDevices) {
    for (const bool before : {true, false}) {
      AdapterCall call =
          mean_of_values({{"kv_lengths", List{2}},
                          {"softmax_scale", 0.5},
                          {"core_attention_bias_type",
                           before ? "pre_scale_bias" : "post_scale_bias"}},
                         1, 1, {0, 8});
      // Logits 0 and log 3: p = 1/4, 3/4.
      const double bias = std::log(3.0) * (before ? 2 : 1);
      call.inputs["bias"] = make_tensor({0, bias}, {1, 1, 1, 2});
      call.inputs["d_out"] = make_tensor({1}, {1, 1});
      const AdapterResult r = run_on(device, call);
      expect_close(r.outputs.at("out"), make_tensor({6}, {1, 1, 1}), 1e-6, 0,
                   "out");
      // d logit = p (v - out): 1/4 * -6, 3/4 * 2.
      const double scale = before ? 0.5 : 1;
      expect_close(r.outputs.at("grad.bias"),
                   make_tensor({-1.5 * scale, 1.5 * scale}, {1, 1, 1, 2}), 1e-6,
                   0, "grad.bias");
    }
  }
}

// Keys 0 and 1 from a query at the bottom right: distances 1 and 0.
TEST(DotProductAttentionAdapter, AlibiCountsFromTheDiagonal) {
  for (const Device device : kDevices) {
    AdapterCall call = mean_of_values(
        {{"kv_lengths", List{2}}, {"core_attention_bias_type", "alibi"}}, 1, 1,
        {0, 8});
    call.inputs["alibi_slopes"] = make_tensor({std::log(3.0)}, {1, 1});
    expect_close(run_on(device, call).outputs.at("out"),
                 make_tensor({6}, {1, 1, 1}), 1e-6, 0, "alibi");
  }
}

TEST(DotProductAttentionAdapter, GradientsAreSlopes) {
  for (const Device device : kDevices) {
    AdapterCall call = attention_case({{"num_attention_heads", 2},
                                       {"channels", 3},
                                       {"v_channels", 2},
                                       {"q_lengths", List{3, 2}},
                                       {"kv_lengths", List{4, 3}},
                                       {"qkv_format", "bshd"},
                                       {"attn_mask_type", "padding"},
                                       {"softmax_scale", 0.7}});
    call.inputs = {{"q", normal_tensor({6, 2, 3}, DType::kF32, 1)},
                   {"k", normal_tensor({8, 1, 3}, DType::kF32, 2)},
                   {"v", normal_tensor({8, 1, 2}, DType::kF32, 3)},
                   {"d_out", normal_tensor({6, 4}, DType::kF32, 4)}};
    const AdapterResult r = run_on(device, call);
    for (const std::string name : {"q", "k", "v"}) {
      const auto out = [&](const Tensor& x) {
        AdapterCall moved = call;
        moved.inputs[name] = x;
        return run_on(device, moved).outputs.at("out");
      };
      Tensor slope = r.outputs.at("grad." + name);
      te::expect_gradient(out, call.inputs.at(name), call.inputs.at("d_out"),
                          slope, 2e-3, name);
    }
  }
}

TEST(DotProductAttentionAdapter, ContractAndRefusals) {
  AdapterCall call = mean_of_values({}, 1, 4, {10, 20}, 2);
  const AdapterResult r = run_on(Device::kCpu, call);
  const Value& defaults = r.contract.at("defaults");
  EXPECT_EQ(*defaults.find("attn_mask_type"), Value("causal"));
  EXPECT_EQ(*defaults.find("softmax_type"), Value("vanilla"));
  EXPECT_EQ(r.contract.at("enums").find("attn_mask_type")->list().size(), 7u);
  call.parameters["num_gqa_groups"] = 3;
  EXPECT_NE(
      error_of([&] { run_on(Device::kCpu, call); }).find("num_gqa_groups"),
      std::string::npos);
  call.parameters["num_gqa_groups"] = 2;
  call.parameters["attn_mask_type"] = "diagonal";
  error_of([&] { run_on(Device::kCpu, call); });
}

}  // namespace
}  // namespace assay::conform
