#include "assay/precheck/conditioning.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "assay/precheck/judge_pair.h"

namespace assay::precheck {
namespace {

constexpr std::int64_t kCount = 1024;

double golden_at(std::int64_t i) {
  return 1 + 0.01 * static_cast<double>(i % 16);
}

// Signs without a mean and without a common direction.
double sign(std::int64_t i, int seed) {
  return ((i >> seed) + i) % 2 == 0 ? 1 : -1;
}

template <typename T>
Tensor tensor_of(DType dtype, const std::function<double(std::int64_t)>& at) {
  Tensor tensor = Tensor::zeros(dtype, {kCount});
  for (std::int64_t i = 0; i < kCount; ++i)
    tensor.mutable_data<T>()[i] = static_cast<T>(at(i));
  return tensor;
}

class ConditioningTest : public ::testing::Test {
 protected:
  // `error` of the device, `movement` of the golden under perturbed inputs.
  Row judge(const std::function<double(std::int64_t)>& error,
            const std::function<double(std::int64_t, int seed)>& movement,
            OpClass op = OpClass::kGemm, bool backward = false) {
    const Tensor golden = tensor_of<double>(DType::kF64, golden_at);
    const Tensor device = tensor_of<float>(
        DType::kF32, [&](std::int64_t i) { return golden_at(i) + error(i); });
    PairTask task;
    task.name = "output.0";
    task.golden = &golden;
    task.device = &device;
    task.recorded = DType::kF32;
    task.op = op;
    task.backward = backward;
    task.moved = [&](Yardstick yardstick) {
      ++asked_;
      yardstick_ = yardstick;
      const bool once = yardstick == Yardstick::kGivenPrecision;
      std::vector<Tensor> moved;
      for (int seed = 0; seed < (once ? 1 : kConditioningSeeds); ++seed)
        moved.push_back(tensor_of<double>(DType::kF64, [&](std::int64_t i) {
          return golden_at(i) + movement(i, seed);
        }));
      return moved;
    };
    return judge_pair(*Standard::load("assay"), task).row;
  }

  static bool says(const Row& row, const char* text) {
    for (const Reason& reason : row.reasons)
      if (reason.criterion == "conditioning" &&
          reason.text.find(text) != std::string::npos)
        return true;
    return false;
  }

  int asked_ = 0;
  Yardstick yardstick_ = Yardstick::kNone;
};

// 3e-4 is over what fp32 allows a matrix product of values about 1: 2^-14.
double noise(std::int64_t i) { return 3e-4 * sign(i, 1); }
double moves(std::int64_t i, int seed) { return 2e-4 * sign(i, seed + 1); }

TEST_F(ConditioningTest, ExplainsWhatRoundingTheInputsDoes) {
  const Row row = judge(noise, moves);
  EXPECT_EQ(row.verdict, Verdict::kMatch);
  EXPECT_TRUE(says(row, "explained by conditioning"));
  EXPECT_EQ(asked_, 1);
}

TEST_F(ConditioningTest, NothingIsAskedForARowThatMatches) {
  EXPECT_EQ(judge([](std::int64_t) { return 0.0; }, moves).verdict,
            Verdict::kMatch);
  EXPECT_EQ(asked_, 0);
}

TEST_F(ConditioningTest, NotMoreThanFourTimesTheMovement) {
  const Row row =
      judge([](std::int64_t i) { return 12e-4 * sign(i, 1); }, moves);
  EXPECT_EQ(row.verdict, Verdict::kMismatch);
  EXPECT_TRUE(says(row, "does not explain it"));
}

TEST_F(ConditioningTest, ACommonFactorIsNoRounding) {
  // As large as the movements, but of one direction.
  const Row row =
      judge([](std::int64_t i) { return 3e-4 * golden_at(i); }, moves);
  EXPECT_EQ(row.verdict, Verdict::kMismatch);
}

TEST_F(ConditioningTest, AnElementThatDoesNotMoveHasNoAllowance) {
  const auto one = [](std::int64_t i) { return i == 5 ? 3e-4 : 0; };
  const auto others = [](std::int64_t i, int seed) {
    return i == 5 ? 0 : moves(i, seed);
  };
  EXPECT_EQ(judge(one, moves).verdict, Verdict::kMatch);
  EXPECT_EQ(judge(one, others).verdict, Verdict::kMismatch);
}

TEST_F(ConditioningTest, FarNeighboursDoNotHelp) {
  // All of the movement is in the second block of eight.
  const auto far = [](std::int64_t i, int seed) {
    return i < 8 ? 1e-9 * sign(i, seed + 1) : 0.1 * sign(i, seed + 1);
  };
  const auto near = [](std::int64_t i) { return i == 2 ? 3e-4 : 0; };
  EXPECT_EQ(judge(near, far).verdict, Verdict::kMismatch);
}

TEST_F(ConditioningTest, WithoutAYardstickItIsIncomplete) {
  const Row row = judge(
      noise, [](std::int64_t i, int seed) { return 0.5 * sign(i, seed + 1); });
  EXPECT_EQ(row.verdict, Verdict::kIncomplete);
  EXPECT_TRUE(says(row, "no yardstick"));
}

TEST_F(ConditioningTest, TightClassesAreNeverAsked) {
  EXPECT_EQ(judge(noise, moves, OpClass::kElementwise).verdict,
            Verdict::kMismatch);
  EXPECT_EQ(judge(noise, moves, OpClass::kMovement).verdict,
            Verdict::kMismatch);
  EXPECT_EQ(asked_, 0);
}

TEST_F(ConditioningTest, GradientsOfElementwiseOperatorsAreHeldToTheirLike) {
  const Row row = judge(noise, moves, OpClass::kElementwise, true);
  EXPECT_EQ(yardstick_, Yardstick::kGivenPrecision);
  EXPECT_EQ(row.verdict, Verdict::kMatch);
  EXPECT_TRUE(says(row, "the golden's installation, in the given precision"));
  const auto still = [](std::int64_t, int) { return 0.0; };
  EXPECT_EQ(judge(noise, still, OpClass::kElementwise, true).verdict,
            Verdict::kMismatch);
  EXPECT_EQ(judge(noise, moves, OpClass::kMovement, true).verdict,
            Verdict::kMismatch);
}

}  // namespace
}  // namespace assay::precheck
