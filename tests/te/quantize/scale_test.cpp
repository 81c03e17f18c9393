#include "assay/te/quantize/scale.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "tests/te/quantize/tensors.h"

namespace assay::te {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kInf = std::numeric_limits<float>::infinity();

// 448 / 1e-38 = 4.48e40 is beyond fp32.
TEST(ComputeScale, F01_TinyAmaxHasTheLargestScale) {
  EXPECT_EQ(compute_scale(1e-38f, 448, {}), kMax);
  EXPECT_EQ(scale_inverse(kMax), 0x1p-128f);  // subnormal, not flushed
  EXPECT_EQ(compute_scale(1e-38f, 448, {.pow2 = true}), 0x1p127f);
}

// T6: block-128 falls back to the largest value of the input's dtype.
TEST(ComputeScale, ValueForInfinityIsTheCallersChoice) {
  const ScaleOptions f16{.value_for_inf = block_value_for_inf(DType::kF16)};
  EXPECT_EQ(compute_scale(1e-38f, 448, f16), 65504.0f);
  EXPECT_EQ(block_value_for_inf(DType::kBF16), 0x1.fep127f);
  EXPECT_EQ(block_value_for_inf(DType::kF32), kMax);
}

TEST(ComputeScale, NothingToScaleByIsOne) {
  for (float amax : {0.0f, kInf, std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(compute_scale(amax, 448, {}), 1.0f) << amax;
}

TEST(ComputeScale, EpsilonIsAFloorOfAmax) {
  const ScaleOptions rule{.epsilon = 4};
  EXPECT_EQ(compute_scale(0, 448, rule), 112.0f);
  EXPECT_EQ(compute_scale(3.9f, 448, rule), 112.0f);
  EXPECT_EQ(compute_scale(7, 448, rule), 64.0f);
  EXPECT_EQ(compute_scale(std::numeric_limits<float>::quiet_NaN(), 448, rule),
            1.0f);
}

// Toward zero, whatever the remainder.
TEST(ComputeScale, PowerOfTwoNeverExceedsTheQuotient) {
  for (float amax = 1e-30f; amax < 1e30f; amax *= 1.37f) {
    const float plain = compute_scale(amax, 57344, {});
    const float pow2 = compute_scale(amax, 57344, {.pow2 = true});
    EXPECT_LE(pow2, plain);
    EXPECT_GT(2 * pow2, plain);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(pow2) & 0x7fffff, 0u);
  }
}

// OCP 448 -> 1, fnuz 240 -> 240/448; the "224 policy" of vLLM is a maximum
// that the caller names.
TEST(ComputeScale, F09_MaximumComesFromTheFormat) {
  EXPECT_EQ(compute_scale(448, format_max(DType::kE4M3FN), {}), 1.0f);
  EXPECT_EQ(compute_scale(448, format_max(DType::kE4M3FNUZ), {}),
            240.0f / 448.0f);
  EXPECT_EQ(compute_scale(448, 224, {}), 0.5f);
  EXPECT_EQ(format_max(DType::kE5M2), 57344.0f);
  EXPECT_EQ(format_max(DType::kE5M2FNUZ), 57344.0f);
  EXPECT_EQ(format_max(DType::kE2M1), 6.0f);
}

TEST(ScalesFromAmax, IsTheRuleForEveryElement) {
  const Scales s =
      scales_from_amax(f32({2, 2}, {448, 0, 7, kInf}), DType::kE4M3FN, {});
  EXPECT_EQ(floats(s.scale), (std::vector<float>{1, 1, 64, 1}));
  EXPECT_EQ(floats(s.scale_inv), (std::vector<float>{1, 1, 1 / 64.0f, 1}));
  EXPECT_EQ(s.scale.shape(), (Shape{2, 2}));
  EXPECT_EQ(error_of([] { scales_from_amax(f32({1}, {1}), DType::kBF16, {}); }),
            "scales_from_amax: format: bfloat16, expected float8_e4m3fn, "
            "float8_e5m2, float8_e4m3fnuz or float8_e5m2fnuz");
}

}  // namespace
}  // namespace assay::te
