// The adapter of `softmax` against reference vectors in fp64, numbers worked by
// hand, and its refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

AdapterCall softmax_call(const std::string& mask, double scale,
                         TensorMap inputs) {
  return call_of("softmax", {{"mask_type", mask}, {"scale", scale}}, {},
                 std::move(inputs));
}

void check_vectors(const std::string& file, const std::string& mask,
                   double scale, DType dtype) {
  SCOPED_TRACE(file);
  const Vectors vectors(file);
  TensorMap inputs = {{"x", vectors.array("x", dtype)},
                      {"dy", vectors.array("dy", dtype)}};
  if (mask == "padding") inputs["mask"] = vectors.array("mask");
  const bool wide = dtype == DType::kF32;
  for (const Device device : kDevices) {
    const AdapterResult r = run_on(device, softmax_call(mask, scale, inputs));
    expect_close(r.outputs.at("y"), vectors.array("y_f64"), wide ? 5e-6 : 0.008,
                 1e-7, "y");
    expect_close(r.outputs.at("grad.x"), vectors.array("dx_f64"),
                 wide ? 1e-5 : 0.02, wide ? 1e-6 : 0.01, "grad.x");
  }
}

TEST(SoftmaxAdapter, ReferenceVectors) {
  check_vectors("softmax_scaled_f32", "none", 0.3499999940395355, DType::kF32);
  check_vectors("softmax_masked_f32", "padding", 0.699999988079071,
                DType::kF32);
  check_vectors("softmax_masked_bf16", "padding", 0.25, DType::kBF16);
  check_vectors("softmax_upper_f32", "upper_triangular", 0.5, DType::kF32);
  check_vectors("softmax_upper_bf16", "upper_triangular", 0.6000000238418579,
                DType::kBF16);
  check_vectors("softmax_aligned_f32", "aligned_causal", 1.25, DType::kF32);
}

// Equal logits: every visible key has its share. Two queries, four keys.
TEST(SoftmaxAdapter, TheBottomRightCorner) {
  const TensorMap inputs = {
      {"x", make_tensor(Values(8, 1.0), {1, 1, 2, 4})},
      {"dy", make_tensor({1, 0, 0, 0, 1, 0, 0, 0}, {1, 1, 2, 4})}};
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, softmax_call("aligned_causal", 2.0, inputs));
    const double third = static_cast<float>(1.0 / 3);
    EXPECT_EQ(values_of(r.outputs.at("y")),
              (Values{third, third, third, 0, 0.25, 0.25, 0.25, 0.25}));
    // scale y (dy - sum dy y)
    expect_close(r.outputs.at("grad.x"),
                 make_tensor({4.0 / 9, -2.0 / 9, -2.0 / 9, 0, 0.375, -0.125,
                              -0.125, -0.125},
                             {1, 1, 2, 4}),
                 1e-6, 0, "grad.x");
  }
}

TEST(SoftmaxAdapter, RowsWithoutKeysAreZeros) {
  const TensorMap inputs = {
      {"x", make_tensor({1, 2, 3, 4}, {1, 1, 2, 2})},
      {"mask", make_tensor({1, 1, 0, 1}, {1, 1, 2, 2}, DType::kU8)},
      {"dy", make_tensor({1, 2, 3, 4}, {1, 1, 2, 2})}};
  for (const Device device : kDevices) {
    const AdapterResult r =
        run_on(device, softmax_call("padding", 1.0, inputs));
    EXPECT_EQ(values_of(r.outputs.at("y")), (Values{0, 0, 1, 0}));
    EXPECT_EQ(values_of(r.outputs.at("grad.x")), (Values{0, 0, 0, 0}));
  }
}

// NVTE's conditions for its kernel: 16 bits, 16 < sk, multiples of 8 and 4.
TEST(SoftmaxAdapter, SaysWhereTheFusedKernelRuns) {
  const auto fused = [](DType dtype, Shape shape) {
    const Tensor x = Tensor::zeros(dtype, shape);
    const AdapterResult r =
        run_on(Device::kCpu, softmax_call("none", 1.0, {{"x", x}, {"dy", x}}));
    return r.contract.at("fused_kernel").boolean();
  };
  EXPECT_TRUE(fused(DType::kBF16, {2, 2, 16, 32}));
  EXPECT_FALSE(fused(DType::kF32, {2, 2, 16, 32}));
  EXPECT_FALSE(fused(DType::kBF16, {2, 2, 16, 16}));
  EXPECT_FALSE(fused(DType::kBF16, {1, 3, 16, 32}));
}

TEST(SoftmaxAdapter, RefusesWhatIsNoMask) {
  const Tensor x = Tensor::zeros(DType::kF32, {1, 1, 2, 4});
  const auto refusal = [&](const std::string& mask) {
    return error_of([&] {
      run_on(Device::kCpu, softmax_call(mask, 1.0, {{"x", x}, {"dy", x}}));
    });
  };
  EXPECT_THAT(refusal("diagonal"), testing::HasSubstr("aligned_causal"));
  EXPECT_THAT(refusal("upper_triangular"), testing::HasSubstr("sq == sk"));
  EXPECT_THAT(refusal("padding"), testing::HasSubstr("mask"));
}

}  // namespace
}  // namespace assay::conform
