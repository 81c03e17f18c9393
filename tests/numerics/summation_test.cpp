// Fixed-order summation: accuracy and independence of the block order's owner.
#include "assay/numerics/summation.h"

#include <gtest/gtest.h>

#include <vector>

namespace assay {
namespace {

TEST(Summation, Exact) {
  const auto index = [](std::int64_t i) { return static_cast<double>(i); };
  EXPECT_EQ(blocked_sum(0, index), 0);
  EXPECT_EQ(blocked_sum(1, index), 0);
  EXPECT_EQ(blocked_sum(100'001, index), 5'000'050'000.0);
}

// The tree of seven: ((1 2)(3 4)) ((5 6) 7), seen through rounding: at 1 each
// 2^-53 alone is lost, and kept once two of them have met.
TEST(Summation, TreeShape) {
  PairwiseSum sum;
  for (const double x : {1.0, 0.0, 0x1p-53, 0x1p-53}) sum.add(x);
  EXPECT_EQ(sum.total(), 1 + 0x1p-52);
  PairwiseSum lost;
  for (const double x : {1.0, 0x1p-53, 0.0, 0x1p-53}) lost.add(x);
  EXPECT_EQ(lost.total(), 1.0);
}

// Ten million times 0.1: a running sum is off by 1.6e-4, the blocked one by
// less than a ten-thousandth of that.
TEST(Summation, Accuracy) {
  const std::int64_t n = 10'000'000;
  double running = 0;
  for (std::int64_t i = 0; i < n; ++i) running += 0.1;
  const double blocked = blocked_sum(n, [](std::int64_t) { return 0.1; });
  EXPECT_NEAR(running, 1e6, 1e-3);
  EXPECT_GT(running < 1e6 ? 1e6 - running : running - 1e6, 1e-5);
  EXPECT_NEAR(blocked, 1e6, 1e-8);
}

// Partial sums made elsewhere and added in block order give the same bits.
TEST(Summation, BlocksMayComeFromAnywhere) {
  const auto element = [](std::int64_t i) {
    return 1.0 / static_cast<double>(3 * i + 1);
  };
  const std::int64_t n = 10 * kSumBlock + 17;
  std::vector<double> partial(11);
  for (std::int64_t b = 10; b >= 0; --b)
    for (std::int64_t i = b * kSumBlock; i < n && i < (b + 1) * kSumBlock; ++i)
      partial[static_cast<std::size_t>(b)] += element(i);
  PairwiseSum sum;
  for (const double p : partial) sum.add(p);
  EXPECT_EQ(sum.total(), blocked_sum(n, element));
}

}  // namespace
}  // namespace assay
