// The adapter of router: values by hand, slopes, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "assay/conform/adapter.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::expect_close;
using te::make_tensor;
using te::values_of;
using Values = std::vector<double>;

// One row of logits; everything else does nothing.
AdapterCall route(const Values& logits, std::int64_t topk,
                  Parameters other = {}, Device device = Device::kCpu) {
  const auto experts = static_cast<std::int64_t>(logits.size());
  AdapterCall call;
  call.module = "router";
  call.device = device;
  call.parameters = {{"tokens", 1},
                     {"experts", experts},
                     {"topk", topk},
                     {"score_function", "softmax"},
                     {"use_pre_softmax", false},
                     {"num_groups", 0},
                     {"group_topk", 0},
                     {"scaling_factor", 1.0},
                     {"quantile", false},
                     {"routing_map_format", "BYTEMAP"},
                     {"coeff", 1.0},
                     {"dtype", "float32"},
                     {"values", "normal"}};
  for (auto& [name, value] : other) call.parameters[name] = value;
  const Shape row = {1, experts};
  Tensor counts = Tensor::zeros(DType::kI32, {experts}, device);
  call.inputs = {{"logits", make_tensor(logits, row, DType::kF32, device)},
                 {"d_probs", Tensor::zeros(DType::kF32, row, device)},
                 {"d_scores", Tensor::zeros(DType::kF32, row, device)},
                 {"aux_probs", Tensor::zeros(DType::kF32, row, device)},
                 {"tokens_per_expert", counts},
                 {"d_loss", make_tensor({1}, {1}, DType::kF32, device)}};
  return call;
}

AdapterResult run(const AdapterCall& call) {
  return find_adapter("router")->run(call);
}

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

// exp(x) = 1, 2, 5.
TEST(RouterAdapter, SoftmaxBeforeAndAfterTheChoice) {
  const Values logits = {0, std::log(2.0), std::log(5.0)};
  for (const Device device : kDevices) {
    AdapterResult r =
        run(route(logits, 2, {{"use_pre_softmax", true}}, device));
    expect_close(r.outputs.at("probs"), make_tensor({0, .25, .625}, {1, 3}),
                 1e-6, 0, "before");
    expect_close(r.outputs.at("aux_scores"),
                 make_tensor({.125, .25, .625}, {1, 3}), 1e-6, 0, "aux");
    r = run(route(logits, 2, {{"scaling_factor", 7.0}}, device));
    expect_close(r.outputs.at("probs"), make_tensor({0, 2, 5}, {1, 3}), 1e-6, 0,
                 "after, times 7");
    EXPECT_EQ(values_of(r.outputs.at("routing_map")), (Values{0, 1, 1}));
  }
}

// sigmoid: 1/2 and 3/4; the bias turns the choice alone.
TEST(RouterAdapter, BiasMovesTheChoiceAlone) {
  const double l3 = std::log(3.0);
  for (const Device device : kDevices) {
    AdapterCall call =
        route({0, l3, 0, l3}, 2, {{"score_function", "sigmoid"}}, device);
    call.inputs["expert_bias"] =
        make_tensor({1, 0, 2, -1}, {4}, DType::kF32, device);
    const AdapterResult r = run(call);
    expect_close(r.outputs.at("probs"), make_tensor({.5, 0, .5, 0}, {1, 4}),
                 1e-6, 0, "weights");
    expect_close(r.outputs.at("aux_scores"),
                 make_tensor({.2, .3, .2, .3}, {1, 4}), 1e-6, 0, "aux");
  }
}

// The best expert of all is in a group that loses: 9 + 0 < 5 + 6, 7 + 3 of
// square roots.
TEST(RouterAdapter, GroupsLimitTheChoice) {
  const AdapterResult r = run(route({9, 0, 5, 6, 1, 1, 7, 3}, 4,
                                    {{"score_function", "sqrtsoftplus"},
                                     {"num_groups", 4},
                                     {"group_topk", 2}}));
  EXPECT_EQ(values_of(r.outputs.at("routing_map")),
            (Values{0, 0, 1, 1, 0, 0, 1, 1}));
}

TEST(RouterAdapter, MapsAsBits) {
  const Values logits = {0, 9, 0, 8, 0, 0, 0, 0, 0, 7};
  const AdapterResult r =
      run(route(logits, 3, {{"routing_map_format", "BITMAP_U8"}}));
  EXPECT_EQ(values_of(r.outputs.at("routing_map")), (Values{0x0a, 0x02}));
}

// Ranks 0, 1, 2 stand for logits 0, -1/16, -1/8.
TEST(RouterAdapter, SpacedLogitsComeFromRanks) {
  const AdapterResult ranks = run(route({2, 0, 1}, 2, {{"values", "spaced"}}));
  const AdapterResult logits = run(route({-.125, 0, -.0625}, 2));
  for (const char* name : {"probs", "aux_scores"})
    EXPECT_TRUE(te::same_bits(ranks.outputs.at(name), logits.outputs.at(name)));
}

// d sigmoid of one expert, not divided by its sum: 3/4 * 1/4 * 2.5 * 16.
TEST(RouterAdapter, GradientThroughTheChosen) {
  for (const Device device : kDevices) {
    AdapterCall call =
        route({0, std::log(3.0)}, 1,
              {{"score_function", "sigmoid"}, {"scaling_factor", 2.5}}, device);
    call.inputs["d_probs"] =
        make_tensor({100, 16}, {1, 2}, DType::kF32, device);
    expect_close(run(call).outputs.at("grad.logits"),
                 make_tensor({0, 7.5}, {1, 2}), 1e-6, 0, "grad");
  }
}

// E coeff / (k T^2) sum_e tokens_e sum_t p: 2 * 0.5 / 1 * (3 * 0.25 + 5 * 0.75)
// and, for a gradient of 2 of the loss, 2 * 1 * tokens.
TEST(RouterAdapter, LossByHand) {
  for (const Device device : kDevices) {
    AdapterCall call = route({0, 0}, 1, {{"coeff", 0.5}}, device);
    call.inputs["aux_probs"] =
        make_tensor({.25, .75}, {1, 2}, DType::kF32, device);
    auto* counts =
        call.inputs["tokens_per_expert"].mutable_data<std::int32_t>();
    counts[0] = 3, counts[1] = 5;
    call.inputs["d_loss"] = make_tensor({2}, {1}, DType::kF32, device);
    const AdapterResult r = run(call);
    EXPECT_EQ(values_of(r.outputs.at("aux_loss")), (Values{4.5}));
    EXPECT_EQ(values_of(r.outputs.at("grad.aux_probs")), (Values{6, 10}));
  }
}

// Scores 1/2 and 3/4, biased 1 and 3/4, top 1: the cutoff is 3/4, the biases
// that would just do are 1/4 and 0: bins 1/4 + 1 and 1 of width 1/8.
TEST(RouterAdapter, HistogramOfBiases) {
  AdapterCall call = route({0, std::log(3.0)}, 1,
                           {{"score_function", "sigmoid"}, {"quantile", true}});
  call.inputs["expert_bias"] = make_tensor({.5, .01}, {2});
  const Values counts = values_of(run(call).outputs.at("qb_histogram"));
  ASSERT_EQ(counts.size(), 32u);
  for (std::size_t i = 0; i < 32; ++i)
    EXPECT_EQ(counts[i], i == 10 || i == 16 + 8) << i;
}

TEST(RouterAdapter, Refusals) {
  EXPECT_NE(error_of([] {
              run(route({0, 1}, 3));
            }).find("topk"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              run(route({0, 1}, 1, {{"score_function", "argmax"}}));
            }).find("score_function"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              AdapterCall call = route({0, 1}, 1);
              call.inputs["expert_bias"] = make_tensor({0, 0}, {2});
              run(call);
            }).find("expert_bias"),
            std::string::npos);
}

}  // namespace
}  // namespace assay::conform
