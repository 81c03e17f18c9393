// The adapter of `quantization` against reference vectors of NVTE's own
// references, numbers worked by hand, and its refusals.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/conform/engine/vectors.h"

namespace assay::conform {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

Parameters defaults() {
  return {{"fp8_format", "E4M3"},
          {"direction", "forward"},
          {"force_pow_2_scales", false},
          {"amax_epsilon", 0.0},
          {"block_scaling_dim", 1},
          {"with_2d_quantization", false},
          {"with_rht", false},
          {"with_random_sign_mask", true},
          {"row_scaled_nvfp4", false},
          {"nvfp4_4over6", "none"},
          {"nvfp4_e4m3_max", 448},
          {"amax_history_len", 4},
          {"amax_compute_algo", "max"},
          {"margin", 0},
          {"update", "fused"}};
}

AdapterResult run(Device device, const Parameters& parameters,
                  const TensorMap& inputs, int steps = 1) {
  AdapterCall call;
  call.module = "quantization";
  call.parameters = defaults();
  for (const auto& [name, value] : parameters) call.parameters[name] = value;
  for (const auto& [name, tensor] : inputs)
    call.inputs[name] = on(tensor, device);
  call.steps = steps;
  call.device = device;
  const Adapter* adapter = find_adapter("quantization");
  return adapter->run(call);
}

struct VectorCase {
  std::string file;
  DType dtype;
  Parameters parameters;
};
void PrintTo(const VectorCase& c, std::ostream* out) { *out << c.file; }

class QuantizationVectors
    : public testing::TestWithParam<std::tuple<VectorCase, Device>> {};

TEST_P(QuantizationVectors, CodesAndScalesAreTheReferences) {
  const auto& [c, device] = GetParam();
  const Vectors vectors(c.file);
  const AdapterResult result =
      run(device, c.parameters, {{"x", vectors.array("x", c.dtype)}});
  int compared = 0;
  const auto same = [&](const std::string& output, const std::string& array) {
    if (!vectors.has(array)) return;
    ASSERT_TRUE(result.outputs.count(output)) << output;
    Tensor ours = result.outputs.at(output);
    // The vectors keep tiles as one run of bytes.
    if (output == "row.scale_swizzled") ours.view.shape = {ours.numel()};
    expect_same_bytes(ours, vectors.array(array), array);
    ++compared;
  };
  same("row.codes", "code");
  same("column.codes", "code_t");
  same("row.scale_inv", "scale_inv");
  same("row.amax", "amax");
  same("row.amax", "row_amax");
  same("row.amax", "amax_row");
  same("column.amax", "amax_col");
  same("row.codes", "code_row");
  same("column.codes", "code_col");
  same("row.scale_swizzled", "scale_row_swizzled");
  for (const char* name : {"scale_inv_row", "scale_row"})
    same("row.scale_inv", name);
  for (const char* name : {"scale_inv_col", "scale_col"})
    same("column.scale_inv", name);
  EXPECT_GE(compared, 3);
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, QuantizationVectors,
    testing::Combine(
        testing::ValuesIn(std::vector<VectorCase>{
            {"current_e4m3_f32", DType::kF32, {{"quantizer", "current"}}},
            {"current_e4m3_f32_tiny_pow2",
             DType::kF32,
             {{"quantizer", "current"}, {"force_pow_2_scales", true}}},
            {"current_e5m2_bf16_eps_pow2",
             DType::kBF16,
             {{"quantizer", "current"},
              {"force_pow_2_scales", true},
              {"amax_epsilon", 100.0},
              {"fp8_format", "HYBRID"},
              {"direction", "backward"}}},
            {"block128_1d_pow2_e4m3_bf16",
             DType::kBF16,
             {{"quantizer", "block"}, {"force_pow_2_scales", true}}},
            {"block128_2d_fp32_e5m2_f32",
             DType::kF32,
             {{"quantizer", "block"},
              {"block_scaling_dim", 2},
              {"fp8_format", "HYBRID"},
              {"direction", "backward"}}},
            {"mxfp8_e4m3_bf16", DType::kBF16, {{"quantizer", "mxfp8"}}},
            {"mxfp8_2d_e4m3_bf16",
             DType::kBF16,
             {{"quantizer", "mxfp8"}, {"with_2d_quantization", true}}},
            {"nvfp4_1d_f32", DType::kF32, {{"quantizer", "nvfp4"}}},
            {"nvfp4_2d_bf16",
             DType::kBF16,
             {{"quantizer", "nvfp4"}, {"with_2d_quantization", true}}},
            {"nvfp4_rht_signs",
             DType::kBF16,
             {{"quantizer", "nvfp4"}, {"with_rht", true}}},
            {"nvfp4_rht_nosigns",
             DType::kBF16,
             {{"quantizer", "nvfp4"},
              {"with_rht", true},
              {"with_random_sign_mask", false}}},
            {"nvfp4_rowscaled_bf16",
             DType::kBF16,
             {{"quantizer", "nvfp4"}, {"row_scaled_nvfp4", true}}},
            {"nvfp4_4over6_mae256_2d_bf16",
             DType::kBF16,
             {{"quantizer", "nvfp4"},
              {"with_2d_quantization", true},
              {"nvfp4_4over6", "MAE"},
              {"nvfp4_e4m3_max", 256}}},
            {"nvfp4_4over6_mse256_f32",
             DType::kF32,
             {{"quantizer", "nvfp4"},
              {"nvfp4_4over6", "MSE"},
              {"nvfp4_e4m3_max", 256}}}}),
        testing::Values(Device::kCpu, Device::kReference)),
    [](const auto& test) {
      return std::get<0>(test.param).file +
             (std::get<1>(test.param) == Device::kCpu ? "_cpu" : "_reference");
    });

// What the history holds and the scales are after each step, from NVTE.
class DelayedVectors : public testing::TestWithParam<VectorCase> {};

TEST_P(DelayedVectors, HistoriesAndScalesAreTheReferences) {
  const VectorCase& c = GetParam();
  const Vectors vectors(c.file);
  const Tensor amax = vectors.array("amax_in");
  const std::int64_t steps = amax.shape()[0], slots = amax.shape()[1];
  // The vectors begin with what an earlier run left; here history and scales
  // begin with zeros and ones, so only what no longer depends on that can be
  // compared: the history after as many steps as it is long.
  const auto length = c.parameters.at("amax_history_len").integer();
  const AdapterResult result =
      run(Device::kCpu, c.parameters,
          {{"x", tensor_of<float>(DType::kF32, {steps, 1, 1},
                                  std::vector<float>(steps, 2.0f))},
           {"amax", amax}},
          static_cast<int>(steps));
  const auto* expected = vectors.array("scale_after").data<float>();
  const auto* amaxes = amax.data<float>();
  int compared = 0;
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    int moved = 0;
    for (std::int64_t step = 0; step < steps; ++step) {
      const float given = amaxes[step * slots + slot];
      if (given != 0) ++moved;
      if (moved <= length || !(given > 0) || given > 1e38f) continue;
      const std::string name = "delayed.scale.step" + std::to_string(step + 1);
      EXPECT_EQ(result.outputs.at(name).data<float>()[slot + 1],
                expected[step * slots + slot])
          << name << " slot " << slot;
      ++compared;
    }
  }
  EXPECT_GE(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(Vectors, DelayedVectors,
                         testing::ValuesIn(std::vector<VectorCase>{
                             {"delayed_fused_max_e4m3",
                              DType::kF32,
                              {{"quantizer", "delayed"},
                               {"amax_history_len", 5}}},
                             {"delayed_fused_most_recent_e5m2",
                              DType::kF32,
                              {{"quantizer", "delayed"},
                               {"amax_history_len", 4},
                               {"amax_compute_algo", "most_recent"},
                               {"margin", 1},
                               {"fp8_format", "HYBRID"},
                               {"direction", "backward"}}}}),
                         [](const auto& test) { return test.param.file; });

TEST(QuantizationDelayed, UsesTheScalesOfEarlierSteps) {
  // Magnitudes 2, 8, 0: scales 1, 448/2, 448/8, then 448/8 still (a zero
  // changes nothing, and the greatest of the history decides).
  const Tensor x =
      tensor_of<float>(DType::kF32, {3, 1, 2}, {2, 1, 8, 0.5f, 0, 0});
  const Tensor amax =
      tensor_of<float>(DType::kF32, {3, 2}, {1, 0, -kInf, 4, 7, 0});
  const AdapterResult result =
      run(Device::kCpu, {{"quantizer", "delayed"}, {"amax_history_len", 2}},
          {{"x", x}, {"amax", amax}}, 3);
  const auto floats = [&](const std::string& name) {
    const Tensor& t = result.outputs.at(name);
    return std::vector<float>(t.data<float>(), t.data<float>() + t.numel());
  };
  const auto codes = [&](const std::string& name) {
    const Tensor& t = result.outputs.at(name);
    return std::vector<int>(t.data<std::uint8_t>(),
                            t.data<std::uint8_t>() + t.numel());
  };
  using F = std::vector<float>;
  // 2 under scale 1 is 0x40, 1 is 0x38; 8 * 224 saturates to 448 (0x7e),
  // 0.5 * 224 = 112 is 0x6e.
  EXPECT_EQ(codes("delayed.row.codes.step1"), (std::vector<int>{0x40, 0x38}));
  EXPECT_EQ(codes("delayed.row.codes.step2"), (std::vector<int>{0x7e, 0x6e}));
  EXPECT_EQ(floats("delayed.row.scale_inv.step1"), F{1});
  EXPECT_EQ(floats("delayed.row.scale_inv.step2"), F{1.0f / 224});
  EXPECT_EQ(floats("delayed.row.scale_inv.step3"), F{1.0f / 56});
  EXPECT_EQ(floats("delayed.row.values.step2"), (F{2, 0.5f}));
  // Slot 2's infinity keeps the scale, until it has left the history.
  EXPECT_EQ(floats("delayed.scale.step1"), (F{224, 448, 1}));
  EXPECT_EQ(floats("delayed.scale.step2"), (F{56, 448, 112}));
  EXPECT_EQ(floats("delayed.scale.step3"), (F{56, 448, 112}));
  EXPECT_EQ(floats("delayed.amax_history.step1"), (F{0, 0, 0, 2, 1, 0}));
  EXPECT_EQ(floats("delayed.amax_history.step2"), (F{0, 0, 0, 8, kInf, 4}));
  EXPECT_EQ(floats("delayed.amax_history.step3"), (F{0, 0, 0, 8, 7, 4}));
}

TEST(QuantizationContract, HoldsNvtesNumbersAndDefaults) {
  const AdapterResult result =
      run(Device::kCpu, {{"quantizer", "current"}},
          {{"x", tensor_of<float>(DType::kF32, {1, 1}, {1})}});
  const Value& enums = result.contract.at("enums");
  EXPECT_EQ(*enums.find("Format"),
            parse_json(R"({"E2M1": [6, 6], "E4M3": [448, 448],
                           "E5M2": [57344, 57344], "HYBRID": [448, 57344]})",
                       "test"));
  const Value& dtypes = *enums.find("DType");
  EXPECT_EQ(dtypes.object().size(), 11u);
  EXPECT_EQ(*dtypes.find("kBFloat16"), Value(6));
  EXPECT_EQ(*dtypes.find("kFloat8E8M0"), Value(9));
  EXPECT_EQ(*dtypes.find("kFloat4E2M1"), Value(10));
  const Value& defaults = result.contract.at("defaults");
  EXPECT_EQ(*defaults.find("DelayedScaling")->find("amax_history_len"),
            Value(1024));
  EXPECT_EQ(*defaults.find("MXFP8BlockScaling"),
            parse_json(R"({"backward_override": null, "fp8_dpa": false,
                           "enable_2d_quantization": false, "margin": 0,
                           "fp8_format": "E4M3", "fp8_mha": false})",
                       "test"));
}

TEST(QuantizationErrors, RefusesWhatNoQuantizerHolds) {
  const auto x = [](std::int64_t rows, std::int64_t columns,
                    DType dtype = DType::kF32) {
    return TensorMap{{"x", Tensor::zeros(dtype, {1, rows, columns})}};
  };
  const auto refuses = [](const Parameters& parameters,
                          const TensorMap& inputs) {
    EXPECT_THROW(run(Device::kCpu, parameters, inputs), Error)
        << to_json(parameters);
  };
  refuses({{"quantizer", "mxfp8"}}, x(32, 16));
  refuses({{"quantizer", "mxfp8"}}, x(33, 32));
  refuses({{"quantizer", "nvfp4"}}, x(33, 32));
  refuses({{"quantizer", "nvfp4"}, {"with_rht", true}}, x(32, 32));
  refuses({{"quantizer", "nvfp4"}, {"with_rht", true}, {"nvfp4_4over6", "MAE"}},
          x(32, 32, DType::kBF16));
  refuses({{"quantizer", "block"}, {"block_scaling_dim", 3}}, x(2, 2));
  refuses({{"quantizer", "current"}, {"fp8_format", "E5M2"}}, x(2, 2));
  refuses({{"quantizer", "stochastic"}}, x(2, 2));
  refuses({{"quantizer", "current"}}, {});
}

}  // namespace
}  // namespace assay::conform
