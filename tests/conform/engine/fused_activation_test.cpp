// The adapter of `fused_activation` against reference vectors in fp64 and of
// NVTE's own references, numbers worked by hand, and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using te::values_of;
using Values = std::vector<double>;

constexpr Device kDevices[] = {Device::kCpu, Device::kReference};

AdapterCall activation_call(const std::string& activation,
                            const Parameters& other, TensorMap inputs) {
  return call_of("fused_activation",
                 {{"activation", activation},
                  {"recipe", "none"},
                  {"scaled", false},
                  {"dbias", false},
                  {"glu_interleave_size", 0},
                  {"limit", 7.0},
                  {"alpha", 1.702},
                  {"glu_linear_offset", 1.0},
                  {"beta1", 4.0},
                  {"beta2", 25.0}},
                 other, std::move(inputs));
}

void check_vectors(const std::string& file, DType dtype,
                   const std::vector<std::string>& names) {
  SCOPED_TRACE(file);
  const Vectors vectors(file);
  const TensorMap inputs = {{"x", vectors.array("x", dtype)},
                            {"dy", vectors.array("dy", dtype)}};
  const double rtol = dtype == DType::kF32 ? 5e-6 : 0.008;
  for (const std::string& name : names)
    for (const Device device : kDevices) {
      const AdapterResult r = run_on(device, activation_call(name, {}, inputs));
      expect_close(r.outputs.at("y"), vectors.array(name + "_y_f64"), rtol,
                   5e-6, name);
      expect_close(r.outputs.at("grad.x"), vectors.array(name + "_dx_f64"),
                   rtol, 5e-6, "d" + name);
    }
}

TEST(FusedActivationAdapter, ReferenceVectors) {
  const std::vector<std::string> plain = {"gelu", "qgelu", "relu", "srelu",
                                          "silu"};
  const std::vector<std::string> gated = {"geglu",  "qgeglu", "reglu",
                                          "sreglu", "swiglu", "glu"};
  check_vectors("act_unary_f32", DType::kF32, plain);
  check_vectors("act_unary_bf16", DType::kBF16, plain);
  check_vectors("act_gated_f32", DType::kF32, gated);
  check_vectors("act_gated_bf16", DType::kBF16, gated);
}

TEST(FusedActivationAdapter, ScaledByRow) {
  const auto check = [](const std::string& file, int interleave) {
    SCOPED_TRACE(file);
    const Vectors vectors(file);
    TensorMap inputs = {{"x", vectors.array("x")},
                        {"dy", vectors.array("dy")},
                        {"act_scales", vectors.array("act_scales")}};
    for (const char* name : {"swiglu", "situglu", "clamped_swiglu"})
      for (const Device device : kDevices) {
        const std::string n = name;
        const AdapterResult r =
            run_on(device, activation_call(n,
                                           {{"scaled", true},
                                            {"glu_interleave_size", interleave},
                                            {"limit", 0.5},
                                            {"glu_linear_offset", 0.5}},
                                           inputs));
        expect_close(r.outputs.at("y"), vectors.array(n + "_y"), 5e-6, 5e-6, n);
        expect_close(r.outputs.at("grad.x"), vectors.array(n + "_dx"), 5e-6,
                     5e-6, n);
        expect_close(r.outputs.at("grad.act_scales"),
                     vectors.array(n + "_dscales"), 1e-5, 1e-5, n);
      }
  };
  check("scaled_act_f32", 0);
  check("scaled_act_f32_interleave8_ones", 8);
}

// Delayed scaling casts relu's fp32 values with scale 1 in the first step. The
// second takes 0.75 x: amax 6 is in the history, and the scale 448 / 6.
TEST(FusedActivationAdapter, DelayedScalingUsesTheStepBefore) {
  AdapterCall call =
      activation_call("relu", {{"recipe", "delayed"}},
                      {{"x", make_tensor({-3, 1, 6, 2}, {2, 2})},
                       {"dy", make_tensor({1, 2, 4, 8}, {2, 2})}});
  call.steps = 2;
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    EXPECT_EQ(values_of(r.outputs.at("quantized.y.row.codes.step1")),
              (Values{0, 1, 6, 2}));
    EXPECT_EQ(values_of(r.outputs.at("quantized.y.column.codes.step1")),
              (Values{0, 6, 1, 2}));
    // 4.5 * 448 / 6 = 336, of which E4M3 has 320 and 352: a tie, to even.
    EXPECT_EQ(values_of(r.outputs.at("quantized.y.row.codes.step2")),
              (Values{0, 56, 320, 112}));
    EXPECT_EQ(values_of(r.outputs.at("quantized.y.row.scale_inv.step2")),
              (Values{static_cast<float>(
                  1 / static_cast<double>(static_cast<float>(448.0 / 6)))}));
    EXPECT_EQ(values_of(r.outputs.at("amax_history_fwd")),
              (Values{0, 0, 6, 4.5}));
    EXPECT_EQ(values_of(r.outputs.at("amax_history_bwd")),
              (Values{0, 0, 8, 6}));
    EXPECT_EQ(values_of(r.outputs.at("scale_fwd")),
              (Values{static_cast<float>(448.0 / 6)}));
  }
}

TEST(FusedActivationAdapter, QuantisedLikeTheVectors) {
  const Vectors vectors("mxfp8_fused_srelu_bf16");
  AdapterCall call =
      activation_call("srelu", {{"recipe", "mxfp8"}},
                      {{"x", vectors.array("x", DType::kBF16)},
                       {"dy", vectors.array("grad", DType::kBF16)}});
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    const auto same = [&](const std::string& ours, const char* theirs,
                          DType dtype) {
      expect_same_bytes(r.outputs.at("quantized.y." + ours),
                        vectors.array(theirs, dtype), ours);
    };
    same("row.codes", "code_row", DType::kE4M3FN);
    same("row.scale_inv", "scale_row", DType::kE8M0);
    same("column.codes", "code_col", DType::kE4M3FN);
    same("column.scale_inv", "scale_col", DType::kE8M0);
  }
}

// srelu' = 2 x: every element of grad.x is 1.0078125 * 1.5 = 1.51171875, a tie
// that bf16 takes to 1.515625. Three of them are 4.53515625, 4.53125 in bf16;
// rounded before the sum they would be 4.5625.
TEST(FusedActivationAdapter, BiasGradientsSumUnroundedValues) {
  const TensorMap inputs = {
      {"x", make_tensor(Values(3, 0.50390625), {3, 1}, DType::kBF16)},
      {"dy", make_tensor(Values(3, 1.5), {3, 1}, DType::kBF16)}};
  for (const Device device : kDevices)
    for (const char* recipe : {"none", "current"}) {
      const AdapterResult r = run_on(
          device, activation_call(
                      "srelu", {{"dbias", true}, {"recipe", recipe}}, inputs));
      EXPECT_EQ(values_of(r.outputs.at("grad.x")), Values(3, 1.515625));
      EXPECT_EQ(values_of(r.outputs.at("grad.bias")), Values{4.53125});
      if (r.outputs.count("quantized.grad.bias")) {
        EXPECT_EQ(values_of(r.outputs.at("quantized.grad.bias")),
                  Values{4.53125});
      }
    }
}

TEST(FusedActivationAdapter, Refusals) {
  const TensorMap inputs = {{"x", make_tensor(Values(6, 1), {1, 6})},
                            {"dy", make_tensor(Values(3, 1), {1, 3})}};
  const auto refusal = [&](const std::string& name, const Parameters& p) {
    return error_of(
        [&] { run_on(Device::kCpu, activation_call(name, p, inputs)); });
  };
  EXPECT_THAT(refusal("tanh", {}), testing::HasSubstr("tanh"));
  EXPECT_THAT(refusal("gelu", {{"glu_interleave_size", 2}}),
              testing::HasSubstr("interleave"));
  EXPECT_THAT(refusal("swiglu", {{"glu_interleave_size", 2}}),
              testing::HasSubstr("a multiple of 2"));
  EXPECT_THAT(refusal("swiglu", {{"recipe", "mxfp8"}}),
              testing::HasSubstr("32"));
  EXPECT_THAT(refusal("swiglu", {{"recipe", "fp6"}}),
              testing::HasSubstr("mxfp8"));
}

}  // namespace
}  // namespace assay::conform
