// The adapter of `fused_optimizer` against torch.optim in fp64 (reference
// vectors) and steps worked by hand, and its refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/conform/engine/vectors.h"

namespace assay::conform {
namespace {

Parameters defaults() {
  return {{"optimizer", "adam"},
          {"lr", 0.01},
          {"beta1", 0.9},
          {"beta2", 0.999},
          {"eps", 1e-8},
          {"weight_decay", 0.0},
          {"amsgrad", false},
          {"adam_w_mode", true},
          {"bias_correction", true},
          {"master_weights", false},
          {"master_weight_dtype", "float32"},
          {"exp_avg_dtype", "float32"},
          {"exp_avg_sq_dtype", "float32"},
          {"store_param_remainders", false},
          {"capturable", false},
          {"momentum", 0.9},
          {"dampening", 0.0},
          {"nesterov", false},
          {"wd_after_momentum", false}};
}

AdapterResult run(Device device, const Parameters& parameters, TensorMap inputs,
                  int steps) {
  AdapterCall call;
  call.module = "fused_optimizer";
  call.parameters = defaults();
  for (const auto& [name, value] : parameters) call.parameters[name] = value;
  const DType dtype = inputs.at("a").dtype();
  inputs.emplace("empty", Tensor::zeros(dtype, {0, 4}));
  inputs.emplace("grad.empty", Tensor::zeros(dtype, {steps, 0, 4}));
  for (const auto& [name, tensor] : inputs)
    call.inputs[name] = on(tensor, device);
  call.steps = steps;
  call.device = device;
  return find_adapter("fused_optimizer")->run(call);
}

// One element each, the same gradient at every step.
TensorMap scalars(float a, float gradient, int steps) {
  const auto repeated = [&](const Shape& shape) {
    return tensor_of<float>(DType::kF32, shape,
                            std::vector<float>(steps, gradient));
  };
  return {{"a", tensor_of<float>(DType::kF32, {1}, {a})},
          {"b", tensor_of<float>(DType::kF32, {1, 1}, {a})},
          {"grad.a", repeated({steps, 1})},
          {"grad.b", repeated({steps, 1, 1})}};
}

float value(const AdapterResult& result, const std::string& name) {
  return result.outputs.at(name).data<float>()[0];
}

struct VectorCase {
  std::string file;
  Parameters parameters;
  std::vector<std::string> states;
};
void PrintTo(const VectorCase& c, std::ostream* out) { *out << c.file; }

class OptimizerVectors
    : public testing::TestWithParam<std::tuple<VectorCase, Device>> {};

TEST_P(OptimizerVectors, EveryStepIsTorchs) {
  const auto& [c, device] = GetParam();
  const Vectors vectors(c.file);
  const int steps = static_cast<int>(vectors.array("grad0").shape()[0]);
  const AdapterResult result = run(device, c.parameters,
                                   {{"a", vectors.array("param0_init")},
                                    {"b", vectors.array("param1_init")},
                                    {"grad.a", vectors.array("grad0")},
                                    {"grad.b", vectors.array("grad1")}},
                                   steps);
  const auto compare = [&](const std::string& output,
                           const std::string& array) {
    const Tensor expected = vectors.array(array + "_f64");
    const std::int64_t each = expected.numel() / steps;
    // Squares have no cancellation: their error is relative.
    const double floor = array.starts_with("exp_avg_sq") ? 1e-12 : 2e-7;
    for (int step = 0; step < steps; ++step) {
      const Tensor& ours =
          result.outputs.at(output + ".step" + std::to_string(step + 1));
      ASSERT_EQ(ours.numel(), each);
      for (std::int64_t i = 0; i < each; ++i) {
        const double right = expected.data<double>()[step * each + i];
        ASSERT_NEAR(ours.data<float>()[i], right,
                    2e-6 * std::fabs(right) + floor)
            << output << " step " << step + 1 << " element " << i;
      }
    }
  };
  for (const auto& [name, number] : {std::pair{"a", "0"}, {"b", "1"}}) {
    compare(name, std::string("param") + number);
    for (const std::string& state : c.states)
      compare(std::string(name) + "." + state, state + number);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Vectors, OptimizerVectors,
    testing::Combine(
        testing::ValuesIn(std::vector<VectorCase>{
            {"optim_adam_l2",
             {{"lr", 0.01}, {"weight_decay", 0.1}, {"adam_w_mode", false}},
             {"exp_avg", "exp_avg_sq"}},
            {"optim_adamw",
             {{"lr", 0.003},
              {"beta1", 0.8},
              {"beta2", 0.95},
              {"eps", 1e-6},
              {"weight_decay", 0.05}},
             {"exp_avg", "exp_avg_sq"}},
            {"optim_sgd_momentum_nesterov",
             {{"optimizer", "sgd"},
              {"lr", 0.05},
              {"weight_decay", 0.001},
              {"nesterov", true}},
             {"momentum_buffer"}},
            {"optim_sgd_plain_wd",
             {{"optimizer", "sgd"},
              {"lr", 0.02},
              {"momentum", 0.0},
              {"weight_decay", 0.01}},
             {}}}),
        testing::Values(Device::kCpu, Device::kReference)),
    [](const auto& test) {
      return std::get<0>(test.param).file +
             (std::get<1>(test.param) == Device::kCpu ? "_cpu" : "_reference");
    });

TEST(FusedOptimizer, EpsIsAddedToTheRoot) {
  // m = 0.1 g, v = 0.001 g^2, corrected g and g^2: with eps = |g| the update
  // is lr g / (|g| + eps) = lr / 2, not lr / sqrt(1 + eps / g^2).
  const AdapterResult result =
      run(Device::kCpu, {{"eps", 0.001}}, scalars(1, 0.001f, 1), 1);
  EXPECT_NEAR(value(result, "a"), 1 - 0.01 / 2, 1e-7);
}

TEST(FusedOptimizer, SkipsTheStepThatOverflowed) {
  const AdapterResult result =
      run(Device::kCpu, {{"capturable", true}}, scalars(1, 8, 4), 4);
  // Constant gradients: every step that counts moves by lr.
  EXPECT_NEAR(value(result, "a.step2"), 0.98, 1e-6);
  EXPECT_EQ(value(result, "a.step3"), value(result, "a.step2"));
  EXPECT_EQ(value(result, "a.exp_avg_sq.step3"),
            value(result, "a.exp_avg_sq.step2"));
  EXPECT_NEAR(value(result, "a.step4"), 0.97, 1e-6);
  // Gradients of 8 are ones after the loss scale.
  EXPECT_NEAR(value(result, "a.exp_avg.step1"), 0.1, 1e-8);
}

TEST(FusedOptimizer, KeepsStatesUnderAScale) {
  const AdapterResult result =
      run(Device::kCpu,
          {{"exp_avg_dtype", "float8_e4m3fn"}, {"exp_avg_sq_dtype", "float16"}},
          scalars(1, 2, 1), 1);
  // The largest magnitude, 0.2, becomes 448 (7e); 0.004 becomes 32752, half of
  // what fp16 reaches (0x77ff).
  EXPECT_EQ(result.outputs.at("a.exp_avg").data<std::uint8_t>()[0], 0x7e);
  EXPECT_NEAR(value(result, "a.exp_avg.scale"), 0.2 / 448, 1e-10);
  EXPECT_EQ(result.outputs.at("a.exp_avg_sq").data<std::uint16_t>()[0], 0x77ff);
  EXPECT_NEAR(value(result, "a.exp_avg_sq.scale"), 0.004 / 32752, 1e-13);
}

TEST(FusedOptimizer, UpdatesAParameterWithStrides) {
  TensorMap inputs = scalars(1, 1, 1);
  // A 2 x 2 view whose rows lie in columns: 1 2 / 3 4 in memory 1 3 2 4.
  Tensor turned = tensor_of<float>(DType::kF32, {2, 2}, {1, 3, 2, 4});
  turned.view.strides = {1, 2};
  inputs["b"] = turned;
  inputs["grad.b"] = tensor_of<float>(DType::kF32, {1, 2, 2}, {1, -1, 1, -1});
  const AdapterResult result = run(Device::kCpu, {}, inputs, 1);
  const float* b = result.outputs.at("b").data<float>();
  const float expected[] = {0.99f, 2.01f, 2.99f, 4.01f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(b[i], expected[i], 1e-6) << i;
}

TEST(FusedOptimizer, Refuses) {
  const TensorMap inputs = scalars(1, 1, 1);
  const std::vector<Parameters> invalid = {
      {{"amsgrad", true}},
      {{"optimizer", "lion"}},
      {{"optimizer", "sgd"}, {"nesterov", true}, {"momentum", 0.0}},
      {{"optimizer", "sgd"}, {"nesterov", true}, {"dampening", 0.25}},
      {{"store_param_remainders", true}},
      {{"exp_avg_dtype", "int8"}},
      {{"beta1", 1.5}}};
  for (const Parameters& parameters : invalid)
    EXPECT_THROW(run(Device::kCpu, parameters, inputs, 1), Error)
        << to_json(parameters);
}

TEST(FusedOptimizer, ContractIsNvtes) {
  const AdapterResult result =
      run(Device::kCpu, {{"exp_avg_dtype", "bfloat16"}}, scalars(1, 1, 1), 1);
  const Value& adam = *result.contract.at("defaults").find("FusedAdam");
  EXPECT_EQ(*adam.find("betas"), Value(List{0.9, 0.999}));
  EXPECT_EQ(*adam.find("eps"), Value(1e-8));
  EXPECT_EQ(*adam.find("adam_w_mode"), Value(true));
  EXPECT_EQ(result.contract.at("state_dict"),
            parse_json(R"({"a.exp_avg": ["bfloat16", [1]],
                           "a.exp_avg_sq": ["float32", [1]],
                           "b.exp_avg": ["bfloat16", [1, 1]],
                           "b.exp_avg_sq": ["float32", [1, 1]],
                           "empty.exp_avg": ["bfloat16", [0, 4]],
                           "empty.exp_avg_sq": ["float32", [0, 4]]})",
                       "test"));
}

}  // namespace
}  // namespace assay::conform
