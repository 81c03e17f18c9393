// The adapter of fuser_ops: rows by hand and against their modules' formulas,
// slopes, refusals.
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
using te::normal_tensor;
using te::values_of;
using Values = std::vector<double>;

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

AdapterCall row_of(const std::string& row, std::int64_t features,
                   std::int64_t out_features, Parameters other = {}) {
  AdapterCall call;
  call.module = "fuser_ops";
  call.parameters = {{"row", row},
                     {"features", features},
                     {"out_features", out_features},
                     {"in_place", false},
                     {"zero_centered_gamma", false},
                     {"glu_interleave_size", 0},
                     {"cache_quantized_input", false},
                     {"scale_bias", false},
                     {"dtype", "float32"},
                     {"recipe", "none"}};
  for (auto& [name, value] : other) call.parameters[name] = value;
  return call;
}

AdapterResult run_on(Device device, AdapterCall call) {
  call.device = device;
  for (auto& [name, tensor] : call.inputs) tensor.device = device;
  return find_adapter("fuser_ops")->run(call);
}

// ((1, 2) W^T) * 0.75 + extra, W = (1, 0), (0, 1), (1, 1).
TEST(FuserOpsAdapter, LinearScaleAddByHand) {
  for (const Device device : kDevices) {
    for (const bool in_place : {false, true}) {
      AdapterCall call = row_of("BasicLinear+ConstantScale+AddExtraInput", 2, 3,
                                {{"in_place", in_place}});
      call.inputs = {{"x", make_tensor({1, 2}, {1, 2})},
                     {"0.weight", make_tensor({1, 0, 0, 1, 1, 1}, {3, 2})},
                     {"extra_input", make_tensor({10, 20, 30}, {1, 3})},
                     {"dy", make_tensor({4, 8, 12}, {1, 3})}};
      const auto out = run_on(device, call).outputs;
      EXPECT_EQ(values_of(out.at("y")), (Values{10.75, 21.5, 32.25}));
      EXPECT_EQ(values_of(out.at("grad.x")), (Values{12, 15}));
      EXPECT_EQ(values_of(out.at("grad.0.weight")),
                (Values{3, 6, 6, 12, 9, 18}));
      EXPECT_EQ(values_of(out.at("grad.extra_input")), (Values{4, 8, 12}));
    }
  }
}

// The gradient of a copy that also goes elsewhere is the sum of both.
TEST(FuserOpsAdapter, GradientsOfAnExtraOutputAreAdded) {
  for (const Device device : kDevices) {
    AdapterCall call = row_of("Identity+MakeExtraOutput+BasicLinear", 2, 1);
    call.inputs = {{"x", make_tensor({3, 4}, {1, 2})},
                   {"2.weight", make_tensor({1, 10}, {1, 2})},
                   {"dy", make_tensor({2}, {1, 1})},
                   {"d_extra_output", make_tensor({100, 200}, {1, 2})}};
    const auto out = run_on(device, call).outputs;
    EXPECT_EQ(values_of(out.at("y")), Values{43});
    EXPECT_EQ(values_of(out.at("extra_output")), (Values{3, 4}));
    EXPECT_EQ(values_of(out.at("grad.x")), (Values{102, 220}));
  }
}

// Groups of 1, 0 and 2 rows; the bias of a row times its factor.
TEST(FuserOpsAdapter, GroupsOfRows) {
  for (const Device device : kDevices) {
    AdapterCall call = row_of("GroupedLinear", 2, 1, {{"scale_bias", true}});
    Tensor sizes = Tensor::empty(DType::kI64, {3});
    const std::int64_t counts[] = {1, 0, 2};
    std::copy(counts, counts + 3, sizes.mutable_data<std::int64_t>());
    call.inputs = {{"x", make_tensor({1, 1, 2, 2, 3, 3}, {3, 2})},
                   {"dy", make_tensor({1, 1, 2}, {3, 1})},
                   {"split_sizes", sizes},
                   {"scales", make_tensor({1, 2, 3}, {3})}};
    for (int g = 0; g < 3; ++g) {
      const std::string n = std::to_string(g);
      call.inputs["0.weight" + n] = make_tensor({g + 1.0, 0}, {1, 2});
      call.inputs["0.bias" + n] = make_tensor({100.0 * (g + 1)}, {1});
    }
    const auto out = run_on(device, call).outputs;
    EXPECT_EQ(values_of(out.at("y")), (Values{101, 606, 909}));
    EXPECT_EQ(values_of(out.at("grad.0.weight2")), (Values{8, 8}));
    EXPECT_EQ(values_of(out.at("grad.0.weight1")), (Values{0, 0}));
    EXPECT_EQ(values_of(out.at("grad.0.bias2")), (Values{2 + 6}));
    EXPECT_EQ(values_of(out.at("grad.scales")), (Values{100, 300, 600}));
  }
}

// silu(0) = 0; columns a0 a1 b0 b1, or pairs of them: a0 b0 a1 b1.
TEST(FuserOpsAdapter, GatesAndTheirOrder) {
  const double a = 2, silu = a / (1 + std::exp(-a));
  for (const Device device : kDevices) {
    AdapterCall call = row_of("SwiGLU", 4, 2);
    call.inputs = {{"x", make_tensor({0, a, 5, 7}, {1, 4})},
                   {"dy", make_tensor({0, 0}, {1, 2})}};
    expect_close(run_on(device, call).outputs.at("y"),
                 make_tensor({0, 7 * silu}, {1, 2}), 1e-6, 0, "halves");
    call.parameters["glu_interleave_size"] = 1;
    expect_close(run_on(device, call).outputs.at("y"),
                 make_tensor({0, 7 * 5 / (1 + std::exp(-5.0))}, {1, 2}), 1e-6,
                 0, "pairs");
  }
}

TEST(FuserOpsAdapter, EveryRowHasTheSlopesOfItsValues) {
  for (const char* row :
       {"GELU", "QGELU", "GLU", "ClampedSwiGLU", "SiTUGLU", "L2Normalization",
        "Reshape", "Identity+LayerNorm+Linear+GELU+Linear",
        "Linear+SwiGLU+BasicLinear", "BasicLinear+Bias+GELU"}) {
    AdapterCall call = row_of(row, 4, 6);
    call.inputs = {{"x", normal_tensor({2, 4}, DType::kF32, 1)}};
    const auto normal = [&](const char* name, Shape shape, unsigned seed) {
      call.inputs[name] =
          normal_tensor(std::move(shape), DType::kF32, seed, Device::kCpu, .5);
    };
    const std::string names = row;
    if (names.starts_with("Identity")) {
      normal("1.weight", {4}, 2), normal("1.bias", {4}, 3);
      normal("2.basic_ops.0.weight", {6, 4}, 4);
      normal("2.basic_ops.1.bias", {6}, 5);
      normal("4.basic_ops.0.weight", {4, 6}, 6);
      normal("4.basic_ops.1.bias", {4}, 7);
    } else if (names.starts_with("Linear")) {
      normal("0.basic_ops.0.weight", {6, 4}, 4);
      normal("0.basic_ops.1.bias", {6}, 5);
      normal("2.weight", {4, 3}, 6);
    } else if (names.starts_with("Basic")) {
      normal("0.weight", {6, 4}, 4), normal("1.bias", {6}, 5);
    }
    const auto y = [&](const Tensor& x) {
      AdapterCall moved = call;
      moved.inputs["x"] = x;
      moved.inputs["dy"] = call.inputs.at("dy");
      return run_on(Device::kReference, moved).outputs.at("y");
    };
    const std::int64_t outputs =
        names == "Reshape"                                                ? 8
        : names.starts_with("Basic")                                      ? 12
        : names.find("GLU") != names.npos && !names.starts_with("Linear") ? 4
                                                                          : 8;
    call.inputs["dy"] = normal_tensor({outputs}, DType::kF32, 8);
    const Tensor grad = run_on(Device::kReference, call).outputs.at("grad.x");
    te::expect_gradient(y, call.inputs.at("x"), call.inputs.at("dy"), grad,
                        5e-3, row);
  }
}

TEST(FuserOpsAdapter, ContractAndRefusals) {
  AdapterCall call = row_of("Bias", 2, 3);
  call.inputs = {{"x", make_tensor({1, 2}, {1, 2})},
                 {"0.bias", make_tensor({5, 6}, {2})},
                 {"dy", make_tensor({1, 1}, {1, 2})}};
  const AdapterResult r = run_on(Device::kCpu, call);
  EXPECT_EQ(values_of(r.outputs.at("y")), (Values{6, 8}));
  EXPECT_EQ(*r.contract.at("defaults").find("LayerNorm.eps"), Value(1e-5));
  EXPECT_EQ(*r.contract.at("state_dict").find("0.bias"),
            Value(List{"float32", List{2}}));
  call.inputs["dy"] = make_tensor({1}, {1, 1});
  EXPECT_NE(error_of([&] { run_on(Device::kCpu, call); }).find("dy"),
            std::string::npos);
  call.parameters["row"] = "Bias+Convolution";
  EXPECT_NE(error_of([&] { run_on(Device::kCpu, call); }).find("Convolution"),
            std::string::npos);
}

}  // namespace
}  // namespace assay::conform
