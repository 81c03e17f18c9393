// The adapter of linear: values by hand, in high precision and quantised, what
// the steps do, the histories, refusals.
#include <gtest/gtest.h>

#include "tests/conform/engine/linear_case.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::make_tensor;
using te::values_of;

AdapterCall linear_case(Parameters other, TensorMap inputs, int steps = 1) {
  AdapterCall call =
      case_of("linear", std::move(other), std::move(inputs), steps);
  const Tensor& weight = call.inputs.count("weight")
                             ? call.inputs.at("weight")
                             : call.inputs.at("key_weight");
  for (const char* flag :
       {"bias", "return_bias", "parameters_split", "save_original_input",
        "fuse_wgrad_accumulation", "delay_wgrad_compute"})
    call.parameters.try_emplace(flag, false);
  call.parameters.try_emplace("is_first_microbatch", "none");
  call.parameters.try_emplace("backward_override", "none");
  call.parameters.try_emplace("in_features", weight.shape()[1]);
  call.parameters.try_emplace("out_features", weight.shape()[0]);
  return call;
}

TensorMap two_by_two() {
  return {{"x", make_tensor({1, 2, 3, 4}, {2, 2})},
          {"weight", make_tensor({1, 0, 2, 1}, {2, 2})},
          {"bias", make_tensor({0.5, -1}, {2})},
          {"dy", make_tensor({1, 0, -1, 2}, {2, 2})}};
}

TEST(LinearAdapter, ByHand) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, linear_case({{"bias", true}}, two_by_two()));
    EXPECT_EQ(values_of(r.outputs.at("y")), (Numbers{1.5, 3, 3.5, 9}));
    EXPECT_EQ(values_of(r.outputs.at("grad.x")), (Numbers{1, 0, 3, 2}));
    EXPECT_EQ(values_of(r.outputs.at("grad.weight")), (Numbers{-2, -2, 6, 8}));
    EXPECT_EQ(values_of(r.outputs.at("grad.bias")), (Numbers{0, 2}));
  }
}

// Step 2 has 0.75 times x and dy: dW is 0.5625 of the first, and main_grad is
// both; the bias's is that of the last step alone.
TEST(LinearAdapter, StepsAndMainGrad) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, linear_case({{"bias", true},
                                    {"return_bias", true},
                                    {"fuse_wgrad_accumulation", true}},
                                   two_by_two(), 2));
    EXPECT_EQ(values_of(r.outputs.at("y.step1")), (Numbers{1, 4, 3, 10}));
    EXPECT_EQ(values_of(r.outputs.at("y.step2")),
              (Numbers{0.75, 3, 2.25, 7.5}));
    EXPECT_EQ(values_of(r.outputs.at("main_grad.weight")),
              (Numbers{-3.125, -3.125, 9.375, 12.5}));
    EXPECT_EQ(values_of(r.outputs.at("grad.bias")), (Numbers{0, 1.5}));
    EXPECT_FALSE(r.outputs.count("grad.weight"));
  }
}

TEST(LinearAdapter, TwoParametersOfOneWeight) {
  TensorMap inputs = two_by_two();
  inputs["query_weight"] = make_tensor({1, 0}, {1, 2});
  inputs["key_weight"] = make_tensor({2, 1}, {1, 2});
  inputs.erase("weight");
  const AdapterResult r = run_on(
      Device::kCpu,
      linear_case({{"parameters_split", true}, {"out_features", 2}}, inputs));
  EXPECT_EQ(values_of(r.outputs.at("grad.query_weight")), (Numbers{-2, -2}));
  EXPECT_EQ(values_of(r.outputs.at("grad.key_weight")), (Numbers{6, 8}));
}

// 16 x 16: a diagonal of ones for W, one row of x and dy.
TensorMap diagonal(double first, double second, double d_first,
                   double d_second) {
  Numbers x(256, 0), w(256, 0), dy(256, 0);
  for (int i = 0; i < 16; ++i) w[17 * i] = 1;
  x[0] = first, x[1] = second;
  dy[0] = d_first, dy[1] = d_second;
  return {{"x", make_tensor(x, {16, 16})},
          {"weight", make_tensor(w, {16, 16})},
          {"bias", Tensor::zeros(DType::kF32, {16})},
          {"dy", make_tensor(dy, {16, 16})}};
}

// amax 448 and 57344 make scales of one. 17 lies between the e4m3 codes 16 and
// 18, 9 between the e5m2 codes 8 and 10; the even ones win. The bias has the
// gradient of dy before it was quantised.
TEST(LinearAdapter, CurrentScalingByHand) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, linear_case({{"recipe", "current"}, {"bias", true}},
                                   diagonal(448, 17, 57344, 9)));
    EXPECT_FLOAT_EQ(values_of(r.outputs.at("y"))[0], 448);
    EXPECT_FLOAT_EQ(values_of(r.outputs.at("y"))[1], 16);
    EXPECT_FLOAT_EQ(values_of(r.outputs.at("grad.x"))[1], 8);
    EXPECT_FLOAT_EQ(values_of(r.outputs.at("grad.bias"))[1], 9);
    // dW[1][1] of the codes: 8 * 16.
    EXPECT_FLOAT_EQ(values_of(r.outputs.at("grad.weight"))[17], 128);
  }
}

// A backward in high precision takes what was there before.
TEST(LinearAdapter, BackwardOverride) {
  const auto dw = [](const char* override) {
    const AdapterResult r = run_on(
        Device::kCpu,
        linear_case({{"recipe", "current"}, {"backward_override", override}},
                    diagonal(448, 17, 57344, 9)));
    return values_of(r.outputs.at("grad.weight"))[17];
  };
  EXPECT_FLOAT_EQ(dw("high_precision"), 9 * 17);
  EXPECT_FLOAT_EQ(dw("dequantized"), 9 * 16);
}

// amax of x: 8, 6, 4.5, 3.375, 2.53125. Five updates of four rows leave the
// last three behind row 0; the last scale is of the greatest of the last four.
TEST(LinearAdapter, HistoriesOfDelayedScaling) {
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(
        device, linear_case({{"recipe", "delayed"}}, diagonal(8, 1, 4, 1), 5));
    const Numbers history =
        values_of(r.outputs.at("_extra_state.amax_history_fwd"));
    const Numbers expected = {0, 4.5, 3.375, 2.53125};
    for (int row = 0; row < 4; ++row) {
      EXPECT_EQ(history[3 * row], expected[row]);
      EXPECT_EQ(history[3 * row + 1], row > 0);  // of the weight
      EXPECT_EQ(history[3 * row + 2], 0);        // output
    }
    const Numbers scale = values_of(r.outputs.at("_extra_state.scale_fwd"));
    EXPECT_EQ(scale[0], 448.0f / 6);
    EXPECT_EQ(scale[1], 448);
    EXPECT_EQ(scale[2], 1);
    // dy's: 57344 / (4 * 0.75).
    EXPECT_EQ(values_of(r.outputs.at("_extra_state.scale_bwd"))[0],
              57344.0f / 3);
  }
}

std::string refusal(Parameters other, TensorMap inputs) {
  return error_of([&] {
    run_on(Device::kCpu, linear_case(std::move(other), std::move(inputs)));
  });
}

TEST(LinearAdapter, Refusals) {
  EXPECT_EQ(refusal({{"recipe", "mxfp8"}}, diagonal(1, 1, 1, 1)),
            "Linear: input: 16 rows, expected a multiple of 32 for "
            "MXFP8BlockScaling");
  EXPECT_NE(refusal({{"recipe", "delayed"}, {"save_original_input", true}},
                    diagonal(1, 1, 1, 1)),
            "");
  EXPECT_NE(
      refusal({{"recipe", "delayed"}, {"backward_override", "dequantized"}},
              diagonal(1, 1, 1, 1)),
      "");
  EXPECT_EQ(refusal({{"recipe", "current"}, {"backward_override", "fp32"}},
                    diagonal(1, 1, 1, 1)),
            "linear: backward_override: fp32, expected none, high_precision "
            "or dequantized");
  EXPECT_NE(refusal({{"recipe", "fp8"}}, two_by_two())
                .find("expected none, delayed, current, block, mxfp8 or nvfp4"),
            std::string::npos);
  TensorMap without = two_by_two();
  without.erase("bias");
  EXPECT_EQ(refusal({{"bias", true}}, without),
            "linear: input bias is not given");
}

TEST(LinearAdapter, Contract) {
  const AdapterResult r =
      run_on(Device::kCpu, linear_case({{"bias", true}}, two_by_two()));
  EXPECT_EQ(to_json(r.contract.at("state_dict")),
            R"({"bias": ["float32", [2]], "weight": ["float32", [2, 2]]})");
  EXPECT_EQ(to_json(r.contract.at("defaults")),
            R"({"bias": true, "delay_wgrad_compute": false, )"
            R"("fuse_wgrad_accumulation": false, "params_dtype": "float32", )"
            R"("return_bias": false, "save_original_input": false})");
}

}  // namespace
}  // namespace assay::conform
