// The adapter of layernorm_linear against torch 2.13 in float64
// (torch.nn.functional.layer_norm, linear, autograd).
#include <gtest/gtest.h>

#include "tests/conform/engine/linear_case.h"

namespace assay::conform {
namespace {

using te::error_of;
using te::make_tensor;

AdapterCall norm_case(Parameters other, TensorMap inputs, int steps = 1) {
  AdapterCall call =
      case_of("layernorm_linear", std::move(other), std::move(inputs), steps);
  for (const char* flag :
       {"bias", "return_bias", "fuse_wgrad_accumulation", "delay_wgrad_compute",
        "zero_centered_gamma", "return_layernorm_output"})
    call.parameters.try_emplace(flag, false);
  call.parameters.try_emplace("is_first_microbatch", "none");
  call.parameters.try_emplace("backward_override", "none");
  call.parameters.try_emplace("normalization", "LayerNorm");
  call.parameters.try_emplace("eps", 1e-5);
  call.parameters.try_emplace("in_features", 4);
  call.parameters.try_emplace("out_features", 3);
  return call;
}

TensorMap inputs() {
  return {{"x", pattern({2, 4})},
          {"layer_norm_weight", pattern({4}, 0.125, 1)},
          {"layer_norm_bias", pattern({4}, 0.25)},
          {"weight", pattern({3, 4}, 0.5)},
          {"bias", pattern({3})},
          {"dy", pattern({2, 3}, 0.5)},
          {"d_layernorm_output", pattern({2, 4}, 0.25)}};
}

TEST(LayerNormLinearAdapter, LayerNormAsTorch) {
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(
        device, norm_case({{"bias", true}, {"return_layernorm_output", true}},
                          inputs()));
    expect_values(r, "y",
                  {1.10705777, -0.242390665, -0.600687427, -1.74686284,
                   1.58670294, -1.13827278});
    expect_values(r, "layernorm_output",
                  {-1.42039191, 0.683049261, -0.617396407, 1.83072225,
                   -0.14375216, -1.36248096, 1.1874832, 0.0812529599});
    expect_values(r, "grad.x",
                  {0.024382403, -0.255899873, 0.0748416112, 0.156675859,
                   -0.432931085, -0.363188963, -0.164148037, 0.960268085});
    expect_values(r, "grad.layer_norm_weight",
                  {-0.332747434, 0.191353585, 0.185892079, -0.0224158153});
    expect_values(r, "grad.layer_norm_bias",
                  {0.109375, -0.4375, 0.390625, 0.703125});
    expect_values(r, "grad.weight",
                  {0.797899847, -1.27845639, 1.12804975, -1.09341831,
                   -0.373066999, 0.000452195147, -0.0059137016, 0.467837183,
                   0.409005039, 0.340168045, -0.290957098, -0.488150423});
    expect_values(r, "grad.bias", {0, 0.375, -0.625});
  }
}

TEST(LayerNormLinearAdapter, ZeroCenteredRmsNormWithALargeEpsilon) {
  TensorMap given = inputs();
  given["layer_norm_weight"] = pattern({4}, 0.125);
  given.erase("layer_norm_bias");
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, norm_case({{"normalization", "RMSNorm"},
                                  {"zero_centered_gamma", true},
                                  {"eps", 0.5}},
                                 given));
    expect_values(r, "y",
                  {1.5284342, -0.476812178, -0.0996446867, -0.593956442,
                   0.834001015, -0.547794025});
    expect_values(r, "grad.x",
                  {0.155872106, -0.214698157, 0.153758431, 0.00471230612,
                   -0.161939884, -0.0476127313, -0.0291831377, 0.759115315});
    expect_values(r, "grad.layer_norm_weight",
                  {-0.625696777, -0.12031777, -0.181001481, -0.247052942});
    expect_values(r, "grad.weight",
                  {0.694356373, -0.803167403, 0.862551846, -0.761746572,
                   -0.194650197, 0.00736252011, 0.0242786039, 0.304698629,
                   0.139255296, 0.201907107, -0.270478166, -0.304698629});
  }
}

// A row of +-1 is its own norm; amax of z is 1.5 with a weight of 1.5: delayed
// scaling has it in its history, and the second step's too, for a norm does
// not see that x is 0.75 times as large.
TEST(LayerNormLinearAdapter, DelayedScalingRemembersTheNormsResult) {
  Numbers x;
  for (int i = 0; i < 64 * 64; ++i) x.push_back((i + i / 64) % 2 ? 1 : -1);
  TensorMap given = {{"x", make_tensor(x, {64, 64})},
                     {"layer_norm_weight", pattern({64}, 0, 1.5)},
                     {"layer_norm_bias", pattern({64}, 0)},
                     {"weight", pattern({64, 64}, 0.5)},
                     {"dy", pattern({64, 64}, 0.5)}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, norm_case({{"recipe", "delayed"},
                                                      {"in_features", 64},
                                                      {"out_features", 64},
                                                      {"eps", 1e-12}},
                                                     given, 2));
    expect_values(r, "_extra_state.scale_fwd", {448 / 1.5, 448 / 0.625, 1});
    expect_values(r, "_extra_state.amax_history_fwd",
                  {0, 0, 0, 0, 0, 0, 1.5, 0.625, 0, 1.5, 0.625, 0});
  }
}

TEST(LayerNormLinearAdapter, RefusesAnotherNorm) {
  EXPECT_NE(error_of([] {
              run_on(Device::kCpu,
                     norm_case({{"normalization", "BatchNorm"}}, inputs()));
            }),
            "");
}

}  // namespace
}  // namespace assay::conform
