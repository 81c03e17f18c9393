// The adapter of `multi_tensor` against reference vectors and values worked by
// hand, and its refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/conform/engine/vectors.h"

namespace assay::conform {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

AdapterResult run(const std::string& op, const Tensor& a, const Tensor& small,
                  const Parameters& parameters = {},
                  Device device = Device::kCpu) {
  AdapterCall call;
  call.module = "multi_tensor";
  call.parameters = {{"op", op},
                     {"dtype", std::string(traits(a.dtype()).name)},
                     {"out_dtype", "float32"},
                     {"factor", 0.25},
                     {"max_fp8", 448.0},
                     {"force_pow_2_scales", false},
                     {"epsilon", 0.0},
                     {"sizes_agree", true}};
  for (const auto& [name, value] : parameters) call.parameters[name] = value;
  call.inputs = {{"a", on(a, device)}, {"small", on(small, device)}};
  call.device = device;
  return find_adapter("multi_tensor")->run(call);
}

Tensor floats(const Shape& shape, const std::vector<float>& values) {
  return tensor_of<float>(DType::kF32, shape, values);
}
const Tensor kNoRows = Tensor::zeros(DType::kF32, {0, 7});

std::vector<float> values(const AdapterResult& result,
                          const std::string& name) {
  const Tensor& t = result.outputs.at(name);
  return {t.data<float>(), t.data<float>() + t.numel()};
}

TEST(MultiTensor, ScalesAsTheVectorsAndFlagsWhatIsNotFinite) {
  const Vectors vectors("multi_tensor_a");
  for (const Device device : {Device::kCpu, Device::kReference}) {
    const auto scaled = [&](const char* array, DType dtype, const char* out) {
      return run("scale", vectors.array(array, dtype), kNoRows,
                 {{"out_dtype", out}}, device);
    };
    const AdapterResult plain = scaled("x", DType::kF32, "float32");
    expect_same_bytes(plain.outputs.at("out.a"), vectors.array("scaled_f32"),
                      "scaled_f32");
    expect_same_bytes(
        scaled("x_bf16", DType::kBF16, "bfloat16").outputs.at("out.a"),
        vectors.array("scaled_bf16_to_bf16", DType::kBF16), "bf16");
    std::vector<std::int32_t> flags;
    for (const char* array : {"x", "x_with_inf", "x_with_nan"})
      flags.push_back(scaled(array, DType::kF32, "float32")
                          .outputs.at("overflow")
                          .data<std::int32_t>()[0]);
    EXPECT_EQ(flags, (std::vector<std::int32_t>{0, 1, 1}));
    const double total = vectors.array("l2norm_total_f64").data<double>()[0];
    EXPECT_NEAR(values(run("l2norm", vectors.array("x"), kNoRows, {}, device),
                       "norm")[0],
                total, 5e-6 * total);
    const double unscaled =
        vectors.array("unscale_l2norm_total_f64").data<double>()[0];
    EXPECT_NEAR(
        values(run("unscale_l2norm", vectors.array("x"), kNoRows, {}, device),
               "norm")[0],
        unscaled, 5e-6 * unscaled);
  }
}

TEST(MultiTensor, TakesEveryTensorOfTheList) {
  const Tensor small = floats({2, 7}, {3, 0, 0, 0, 0, 0, 0,  //
                                       0, 0, 0, 0, 0, 0, -4});
  const AdapterResult norms = run("l2norm", floats({1}, {12}), small);
  EXPECT_EQ(values(norms, "norm"), std::vector<float>{13});
  // The second tensor of the list has no elements.
  EXPECT_EQ(values(norms, "norm.per_tensor"),
            (std::vector<float>{12, 0, 3, 4}));
  const AdapterResult scaled =
      run("scale_tensor", floats({1}, {12}), small, {{"factor", 0.5}});
  EXPECT_EQ(values(scaled, "out.a"), std::vector<float>{6});
  EXPECT_EQ(values(scaled, "out.small")[0], 1.5f);
  EXPECT_EQ(values(scaled, "out.small")[13], -2.0f);
  // Only the last element of the last tensor is not finite.
  const Tensor last = floats({1, 7}, {0, 0, 0, 0, 0, 0, kInf});
  EXPECT_EQ(run("scale", floats({1}, {1}), last)
                .outputs.at("overflow")
                .data<std::int32_t>()[0],
            1);
}

TEST(MultiTensor, MakesScalesOfMagnitudes) {
  // 448 / 3 = 149.33; 0 and infinity have scale 1; 0.01 counts as epsilon.
  const Tensor amax = floats({4}, {-3, 0, -kInf, 0.01f});
  const Parameters options = {{"epsilon", 0.5}};
  const AdapterResult scales =
      run("compute_scale_and_scale_inv", amax, kNoRows, options);
  EXPECT_EQ(values(scales, "scale.a"),
            (std::vector<float>{448.0f / 3, 896, 1, 896}));
  EXPECT_EQ(values(scales, "scale_inv.a"),
            (std::vector<float>{1 / (448.0f / 3), 1 / 896.0f, 1, 1 / 896.0f}));
  // Exponents round up: 448 is 2^0, a little more 2^1; 0 is 2^-127.
  const Tensor blocks = floats({4}, {448, -449, 0, kInf});
  const AdapterResult e8m0 = run("compute_scale_inv_e8m0", blocks, kNoRows);
  const std::uint8_t* codes =
      e8m0.outputs.at("scale_inv.a").data<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(codes, codes + 4),
            (std::vector<int>{127, 128, 0, 254}));
}

TEST(MultiTensor, Refuses) {
  const Tensor a = floats({2}, {1, 2});
  EXPECT_THROW(run("scale", a, kNoRows, {{"sizes_agree", false}}), Error);
  EXPECT_THROW(run("norm", a, kNoRows), Error);
  EXPECT_THROW(
      run("scale", tensor_of<std::int32_t>(DType::kI32, {1}, {1}), kNoRows),
      Error);
}

}  // namespace
}  // namespace assay::conform
