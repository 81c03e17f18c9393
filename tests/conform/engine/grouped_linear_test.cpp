// The adapter of grouped_linear: groups by hand, stacked parameters, a history
// a group.
#include <gtest/gtest.h>

#include "tests/conform/engine/linear_case.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::make_tensor;
using te::values_of;

AdapterCall grouped_case(Parameters other, TensorMap inputs, int steps = 1) {
  AdapterCall call =
      case_of("grouped_linear", std::move(other), std::move(inputs), steps);
  for (const char* flag : {"bias", "return_bias", "save_original_input",
                           "single_grouped_weight", "single_grouped_bias",
                           "fuse_wgrad_accumulation", "delay_wgrad_compute"})
    call.parameters.try_emplace(flag, false);
  call.parameters.try_emplace("is_first_microbatch", "none");
  call.parameters.try_emplace("backward_override", "none");
  return call;
}

// Groups of 2, 0 and 1 rows with weights 1, 10, 100.
Parameters three_groups() {
  return {{"m_splits", List{2, 0, 1}},
          {"num_gemms", 3},
          {"in_features", 1},
          {"out_features", 1},
          {"bias", true}};
}
TensorMap of_three_groups() {
  return {{"x", make_tensor({1, 2, 3}, {3, 1})},
          {"dy", make_tensor({1, -1, 2}, {3, 1})},
          {"weight0", make_tensor({1}, {1, 1})},
          {"weight1", make_tensor({10}, {1, 1})},
          {"weight2", make_tensor({100}, {1, 1})},
          {"bias0", make_tensor({0.5}, {1})},
          {"bias1", make_tensor({5}, {1})},
          {"bias2", make_tensor({50}, {1})}};
}

TEST(GroupedLinearAdapter, EveryGroupHasItsRows) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, grouped_case(three_groups(), of_three_groups()));
    EXPECT_EQ(values_of(r.outputs.at("y")), (Numbers{1.5, 2.5, 350}));
    EXPECT_EQ(values_of(r.outputs.at("grad.x")), (Numbers{1, -1, 200}));
    EXPECT_EQ(values_of(r.outputs.at("grad.weight0")), (Numbers{-1}));
    EXPECT_EQ(values_of(r.outputs.at("grad.weight1")), (Numbers{0}));
    EXPECT_EQ(values_of(r.outputs.at("grad.weight2")), (Numbers{6}));
    EXPECT_EQ(values_of(r.outputs.at("grad.bias0")), (Numbers{0}));
    EXPECT_EQ(values_of(r.outputs.at("grad.bias2")), (Numbers{2}));
  }
}

TEST(GroupedLinearAdapter, OneStackedParameter) {
  Parameters stacked = three_groups();
  stacked["single_grouped_weight"] = true;
  stacked["single_grouped_bias"] = true;
  TensorMap inputs = of_three_groups();
  inputs["weight"] = make_tensor({1, 10, 100}, {3, 1, 1});
  inputs["bias"] = make_tensor({0.5, 5, 50}, {3, 1});
  const AdapterResult r = run_on(Device::kCpu, grouped_case(stacked, inputs));
  EXPECT_EQ(values_of(r.outputs.at("y")), (Numbers{1.5, 2.5, 350}));
  EXPECT_EQ(values_of(r.outputs.at("grad.weight")), (Numbers{-1, 0, 6}));
  EXPECT_EQ(values_of(r.outputs.at("grad.bias")), (Numbers{0, 0, 2}));
}

// Two groups of 16 rows, the first with an amax of 2, the second of 8; a group
// without rows keeps its history and its scale.
TEST(GroupedLinearAdapter, AHistoryForEachGroup) {
  Numbers x(48 * 16, 0);
  x[0] = 2, x[16 * 16] = -8;
  TensorMap inputs = {
      {"x", make_tensor({x.begin(), x.begin() + 512}, {32, 16})},
      {"dy", Tensor::zeros(DType::kF32, {32, 16})}};
  for (const char* name : {"weight0", "weight1", "weight2"})
    inputs[name] = pattern({16, 16});
  const AdapterResult r =
      run_on(Device::kCpu, grouped_case({{"m_splits", List{16, 16, 0}},
                                         {"num_gemms", 3},
                                         {"in_features", 16},
                                         {"out_features", 16},
                                         {"recipe", "delayed"}},
                                        inputs));
  const Numbers scale = values_of(r.outputs.at("_extra_state.scale_fwd"));
  ASSERT_EQ(scale.size(), 9u);
  EXPECT_EQ(scale[0], 224);
  EXPECT_EQ(scale[3], 56);
  EXPECT_EQ(scale[6], 1);
}

TEST(GroupedLinearAdapter, RefusesRowsLeftOver) {
  Parameters wrong = three_groups();
  wrong["m_splits"] = List{2, 0, 2};
  EXPECT_NE(error_of([&] {
              run_on(Device::kCpu, grouped_case(wrong, of_three_groups()));
            }),
            "");
}

}  // namespace
}  // namespace assay::conform
