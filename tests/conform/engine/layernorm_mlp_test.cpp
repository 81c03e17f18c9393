// The adapter of layernorm_mlp against torch 2.13 in float64
// (torch.nn.functional.layer_norm, linear, silu, gelu, autograd).
#include <gtest/gtest.h>

#include "tests/conform/engine/linear_case.h"

namespace assay::conform {
namespace {

using te::error_of;

AdapterCall mlp_case(Parameters other, TensorMap inputs) {
  AdapterCall call =
      case_of("layernorm_mlp", std::move(other), std::move(inputs));
  for (const char* flag :
       {"bias", "return_bias", "fuse_wgrad_accumulation", "delay_wgrad_compute",
        "zero_centered_gamma", "return_layernorm_output", "checkpoint"})
    call.parameters.try_emplace(flag, false);
  call.parameters.try_emplace("is_first_microbatch", "none");
  call.parameters.try_emplace("normalization", "LayerNorm");
  call.parameters.try_emplace("eps", 1e-5);
  call.parameters.try_emplace("hidden_size", 4);
  call.parameters.try_emplace("ffn_hidden_size", 3);
  return call;
}

TensorMap inputs(std::int64_t fc1_rows) {
  return {{"x", pattern({2, 4})},
          {"layer_norm_weight", pattern({4}, 0.125, 1)},
          {"layer_norm_bias", pattern({4}, 0.25)},
          {"fc1_weight", pattern({fc1_rows, 4}, 0.5)},
          {"fc1_bias", pattern({fc1_rows}, 0.5)},
          {"fc2_weight", pattern({4, 3}, 0.5)},
          {"fc2_bias", pattern({4})},
          {"dy", pattern({2, 4}, 0.5)}};
}

TEST(LayerNormMlpAdapter, SwigluAsTorch) {
  for (const bool checkpoint : {false, true})
    for (const Device device : kDevices) {
      const AdapterResult r =
          run_on(device, mlp_case({{"bias", true},
                                   {"activation", "swiglu"},
                                   {"checkpoint", checkpoint}},
                                  inputs(6)));
      expect_values(r, "y",
                    {-1.20607857, 0.436670606, -0.553430179, 1.20646904,
                     -1.16742396, 0.0432310082, -0.858706139, 0.989356714});
      expect_values(r, "grad.x",
                    {-0.136220561, -0.338534594, 0.339690768, 0.135064387,
                     0.025747118, -0.0195516959, -0.0211001975, 0.0149047754});
      expect_values(r, "grad.layer_norm_weight",
                    {-0.33490576, -0.0992232294, -0.322874625, 0.100158223});
      expect_values(r, "grad.layer_norm_bias",
                    {0.278415262, -0.246666611, 0.583343903, 0.0851917597});
      expect_values(r, "grad.fc1_bias",
                    {-0.0446564881, 0.00410301107, 0.0248586915, 0.98301978,
                     0.0213988517, 0.0658428012});
      expect_values(r, "grad.fc2_weight",
                    {-0.00469615333, -0.0620632817, 0.0181926577, 0.152538507,
                     0.21162763, -0.0897760077, -0.210484678, -0.283474674,
                     0.121506371, -0.0532500181, -0.00978376322, 0.0135377056});
      expect_values(r, "grad.fc2_bias", {-0.5, -0.125, 0.25, 0.625});
    }
}

// The tanh form: with erf y would be 3e-4 off.
TEST(LayerNormMlpAdapter, GeluAsTorch) {
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, mlp_case({{"activation", "gelu"}}, inputs(3)));
    expect_values(r, "y",
                  {-1.49075483, 1.45593911, 1.19101439, 0.926089666, 0.37190797,
                   0.0834646735, 0.0065883315, -0.0702880105});
    expect_values(
        r, "grad.x",
        {0.0519166793, -0.0858404714, -0.0373862522, 0.0713100443, 0.0093331424,
         -0.00272304078, -0.00437577674, -0.00223432487});
    expect_values(r, "grad.fc1_weight",
                  {-0.977371309, 0.48204624, -0.435342869, 1.2605944,
                   0.00373556743, 0.0228385662, -0.0198855542, -0.00302463316,
                   0.122253286, -0.0478873271, 0.0436199226, -0.156778218});
    expect_values(r, "grad.fc2_weight",
                  {-1.47906002, 0.22325189, 0.00806087674, 0.641630744,
                   -0.39347513, 0.0510647995, -0.660864103, 0.510465274,
                   -0.0719452419, 1.45982666, -0.106261746, -0.0289413191});
  }
}

TEST(LayerNormMlpAdapter, RefusesAnUnknownActivation) {
  EXPECT_EQ(
      error_of([] {
        run_on(Device::kCpu, mlp_case({{"activation", "tanh"}}, inputs(3)));
      }),
      "layernorm_mlp: activation: no tanh");
}

}  // namespace
}  // namespace assay::conform
