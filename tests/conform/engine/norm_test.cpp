// The adapters of `rmsnorm` and `layernorm` against reference vectors, numbers
// worked by hand, and their refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

AdapterCall norm_call(const std::string& module, const Parameters& other,
                      TensorMap inputs) {
  return call_of(module,
                 {{"hidden_size", 4},
                  {"dtype", "float32"},
                  {"params_dtype", "float32"},
                  {"eps", 0.0},
                  {"zero_centered_gamma", false},
                  {"add", false},
                  {"training", true}},
                 other, std::move(inputs));
}

// What NVTE's own references, or fp64, have for one file of vectors.
struct NormVectors {
  std::string file;
  DType dtype = DType::kF32;
  double eps = 1e-5;
  bool zero_centered = false, add = false;
};

void check_vectors(const std::string& module, const NormVectors& v) {
  SCOPED_TRACE(v.file);
  const Vectors vectors(v.file);
  TensorMap inputs = {{"x", vectors.array("x", v.dtype)},
                      {"weight", vectors.array("gamma", v.dtype)},
                      {"dy", vectors.array("dz", v.dtype)}};
  if (module == "layernorm") inputs["bias"] = vectors.array("beta", v.dtype);
  if (v.add) inputs["add"] = vectors.array("residual_grad", v.dtype);
  const AdapterCall call =
      norm_call(module,
                {{"hidden_size", inputs["x"].shape()[1]},
                 {"params_dtype", std::string(traits(v.dtype).name)},
                 {"eps", v.eps},
                 {"zero_centered_gamma", v.zero_centered},
                 {"add", v.add}},
                inputs);
  const bool wide = v.dtype == DType::kF32;
  const double grad = wide ? 5e-6 : 0.02;
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, call);
    const auto close = [&](const char* ours, const char* theirs, double rtol,
                           double atol) {
      ASSERT_TRUE(r.outputs.count(ours)) << ours;
      expect_close(r.outputs.at(ours), vectors.array(theirs), rtol, atol, ours);
    };
    close("y", "z_f64", wide ? 5e-6 : 0.01, 1e-5);
    close("rsigma", "rsigma_f64", 1e-6, 0);
    close("grad.x", "dx_f64", grad, grad);
    close("grad.weight", "dgamma_f64", grad, grad);
    if (module != "layernorm") continue;
    close("mean", "mu", 1e-6, 1e-7);
    close("grad.bias", "dbeta_f64", grad, grad);
  }
}

TEST(NormAdapter, ReferenceVectors) {
  constexpr DType kBF16 = DType::kBF16;
  check_vectors("rmsnorm", {"norm_rmsnorm_f32"});
  check_vectors("rmsnorm", {"norm_rmsnorm_bf16", kBF16});
  check_vectors("rmsnorm",
                {"norm_rmsnorm_zc_add_f32", DType::kF32, 1e-6, true, true});
  check_vectors("layernorm", {"norm_layernorm_f32"});
  check_vectors("layernorm",
                {"norm_layernorm_zc_f32", DType::kF32, 1e-5, true});
  check_vectors("layernorm", {"norm_layernorm_zc_bf16", kBF16, 1e-5, true});
}

// x = (1, -1, 1, -1): mean 0, variance 1. With eps 3 the root is 2, wherever
// eps counts; added to the root it would be 4.
TEST(NormAdapter, EpsIsUnderTheRoot) {
  const TensorMap inputs = {{"x", make_tensor({1, -1, 1, -1}, {1, 4})},
                            {"weight", make_tensor({1, 1, 1, 2}, {4})},
                            {"bias", make_tensor({0, 0, 0, 1}, {4})}};
  const Parameters p = {{"eps", 3.0}, {"training", false}};
  for (const Device device : kDevices) {
    const AdapterResult rms = run_on(device, norm_call("rmsnorm", p, inputs));
    EXPECT_EQ(values_of(rms.outputs.at("y")), (Values{0.5, -0.5, 0.5, -1}));
    EXPECT_EQ(rms.outputs.size(), 1u);  // inference keeps nothing
    const AdapterResult ln = run_on(device, norm_call("layernorm", p, inputs));
    EXPECT_EQ(values_of(ln.outputs.at("y")), (Values{0.5, -0.5, 0.5, 0}));
  }
}

// The weight is 1 + gamma, and gamma's gradient that of the weight.
TEST(NormAdapter, ZeroCentredGamma) {
  const TensorMap inputs = {{"x", make_tensor({3, -3, 3, -3}, {1, 4})},
                            {"weight", make_tensor({0, 0, 0.5, -1}, {4})},
                            {"dy", make_tensor({1, 2, 4, 8}, {1, 4})}};
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(
        device, norm_call("rmsnorm", {{"zero_centered_gamma", true}}, inputs));
    EXPECT_EQ(values_of(r.outputs.at("y")), (Values{1, -1, 1.5, 0}));
    EXPECT_EQ(values_of(r.outputs.at("grad.weight")), (Values{1, -2, 4, -8}));
  }
}

TEST(NormAdapter, ContractIsNvtes) {
  const TensorMap inputs = {{"x", make_tensor({1, 2, 3, 4}, {1, 4})},
                            {"weight", make_tensor({1, 1, 1, 1}, {4})},
                            {"bias", make_tensor({0, 0, 0, 0}, {4})}};
  const AdapterResult r = run_on(
      Device::kCpu, norm_call("layernorm", {{"training", false}}, inputs));
  EXPECT_EQ(to_json(r.contract.at("defaults")),
            R"({"eps": 1e-05, "zero_centered_gamma": false})");
  EXPECT_EQ(to_json(r.contract.at("state_dict")),
            R"({"bias": ["float32", [4]], "weight": ["float32", [4]]})");
}

TEST(NormAdapter, RefusesWhatIsNoNorm) {
  const TensorMap inputs = {{"x", make_tensor({1, 2, 3, 4}, {1, 4})},
                            {"weight", make_tensor({1, 1, 1, 1}, {4})}};
  const auto refusal = [&](const Parameters& p) {
    return error_of(
        [&] { run_on(Device::kCpu, norm_call("rmsnorm", p, inputs)); });
  };
  EXPECT_THAT(refusal({{"hidden_size", 0}}),
              testing::HasSubstr("normalized_shape"));
  EXPECT_THAT(refusal({{"eps", -1.0}}), testing::HasSubstr("eps"));
  EXPECT_THAT(refusal({{"params_dtype", "int32"}}),
              testing::HasSubstr("params_dtype"));
  EXPECT_THAT(refusal({}), testing::HasSubstr("dy"));
}

}  // namespace
}  // namespace assay::conform
