// The adapter of `recompute`: values by hand, histories, dropout, and its
// refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/conform/engine/run_on.h"
#include "tests/conform/engine/vectors.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::expect_close;
using te::make_tensor;
using te::normal_tensor;
using te::values_of;
using Values = std::vector<double>;

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

AdapterCall recompute_call(const Parameters& other, TensorMap inputs) {
  return call_of("recompute",
                 {{"hidden_size", 1},
                  {"ffn_hidden_size", 1},
                  {"micro_batches", 1},
                  {"dropout", 0.0},
                  {"dtype", "float32"},
                  {"recipe", "none"}},
                 other, std::move(inputs));
}

// y = 5 (3 x + 2) + 7, for x = 1 and then 0.75; gradients add up over the two
// micro-batches: dy = 1 and 0.75.
TEST(RecomputeAdapter, ValuesByHand) {
  const TensorMap inputs = {{"x", make_tensor({1}, {1, 1})},
                            {"fc1.weight", make_tensor({3}, {1, 1})},
                            {"fc1.bias", make_tensor({2}, {1})},
                            {"fc2.weight", make_tensor({5}, {1, 1})},
                            {"fc2.bias", make_tensor({7}, {1})},
                            {"dy", make_tensor({1}, {1, 1})}};
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, recompute_call({{"micro_batches", 2}}, inputs));
    EXPECT_EQ(values_of(r.outputs.at("y")), Values{5 * 4.25 + 7});
    EXPECT_EQ(values_of(r.outputs.at("grad.x")), Values{0.75 * 15});
    EXPECT_EQ(values_of(r.outputs.at("grad.fc1.weight")),
              Values{5 * 1 + 0.75 * 5 * 0.75});
    EXPECT_EQ(values_of(r.outputs.at("grad.fc2.weight")),
              Values{5 + 0.75 * 4.25});
    EXPECT_EQ(values_of(r.outputs.at("grad.fc2.bias")), Values{1.75});
  }
}

TensorMap random_inputs(DType dtype) {
  return {{"x", normal_tensor({32, 32}, dtype, 1)},
          {"fc1.weight", normal_tensor({64, 32}, dtype, 2)},
          {"fc1.bias", normal_tensor({64}, dtype, 3)},
          {"fc2.weight", normal_tensor({32, 64}, dtype, 4)},
          {"fc2.bias", normal_tensor({32}, dtype, 5)},
          {"dy", normal_tensor({32, 32}, dtype, 6)}};
}

// Row 0 of the history is cleared by the update, row 3 is the newest maximum:
// that of the last of 2 x 2 passes, 0.75^3 of x. One that was recorded by a
// second pass would have moved the rows once more.
TEST(RecomputeAdapter, MaximaAreRecordedOnce) {
  TensorMap inputs = random_inputs(DType::kBF16);
  AdapterCall call = recompute_call({{"hidden_size", 32},
                                     {"ffn_hidden_size", 64},
                                     {"micro_batches", 2},
                                     {"dtype", "bfloat16"},
                                     {"recipe", "delayed"}},
                                    inputs);
  call.steps = 2;
  double amax = 0;
  for (const double x : values_of(inputs["x"]))
    amax = std::fmax(amax, std::fabs(x));
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    const Values history =
        values_of(r.outputs.at("fc1._extra_state.amax_history_fwd"));
    ASSERT_EQ(history.size(), 12u);
    EXPECT_EQ(history[0], 0);
    for (int pass = 1; pass < 4; ++pass)
      EXPECT_NEAR(history[static_cast<std::size_t>(3 * pass)],
                  amax * std::pow(0.75, pass), amax * 0x1p-8)
          << pass;
    EXPECT_EQ(
        to_json(r.contract.at("same_bits")),
        R"({"grad_input": true, "grad_parameters": true, "output": true, )"
        R"("random_states": true, "state": true})");
  }
}

// Half of the values are dropped, by masks that the second pass must draw
// again: the contract alone says so.
TEST(RecomputeAdapter, DropoutIsDrawnAgain) {
  AdapterCall call = recompute_call({{"hidden_size", 32},
                                     {"ffn_hidden_size", 64},
                                     {"micro_batches", 3},
                                     {"dropout", 0.5}},
                                    random_inputs(DType::kF32));
  call.steps = 2;
  call.seed = 7;
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    ASSERT_EQ(r.outputs.size(), 1u);
    EXPECT_EQ(values_of(r.outputs.at("differences")), Values(5, 0));
    for (const auto& [name, same] : r.contract.at("same_bits").object())
      EXPECT_TRUE(same.boolean()) << name;
  }
}

TEST(RecomputeAdapter, Refusals) {
  TensorMap inputs = random_inputs(DType::kF32);
  const auto refusal = [&](const Parameters& p) {
    return error_of([&] { run_on(Device::kCpu, recompute_call(p, inputs)); });
  };
  EXPECT_THAT(refusal({}), testing::HasSubstr("fc1.weight"));
  EXPECT_THAT(refusal({{"hidden_size", 0}}), testing::HasSubstr("features"));
  EXPECT_THAT(
      refusal({{"hidden_size", 32}, {"ffn_hidden_size", 64}, {"dropout", 1.5}}),
      testing::HasSubstr("p"));
}

}  // namespace
}  // namespace assay::conform
