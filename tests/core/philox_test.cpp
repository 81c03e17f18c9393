// Philox4x32-10 against the known-answer vectors of Random123.
#include "assay/core/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace assay {
namespace {

using Words = std::array<std::uint32_t, 4>;

TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, StreamCountsBlocksUnderTheSeed) {
  PhiloxStream stream(0x299f31d0a4093822, 7);
  for (std::uint32_t block = 0; block < 3; ++block) {
    const Words expected =
        philox4x32({block, 0, 7, 0}, {0xa4093822, 0x299f31d0});
    for (const std::uint32_t word : expected) EXPECT_EQ(stream.next(), word);
  }
}

TEST(Philox, SeekRepeatsADraw) {
  PhiloxStream stream(1);
  std::vector<std::uint32_t> words;
  for (int i = 0; i < 40; ++i) words.push_back(stream.next());
  for (const std::size_t at : {39u, 0u, 4u, 7u, 8u}) {
    stream.seek(at);
    EXPECT_EQ(stream.next(), words[at]);
  }
}

TEST(Philox, UniformIsBelowOne) {
  EXPECT_EQ(uniform_double(0), 0.0);
  EXPECT_EQ(uniform_double(0x80000000), 0.5);
  EXPECT_LT(uniform_double(0xffffffff), 1.0);
}

// Mean and variance within five standard errors.
TEST(Philox, NormalMoments) {
  PhiloxStream stream(42);
  const int n = 100'000;
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = stream.next_normal();
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2.0 / n));
}

}  // namespace
}  // namespace assay
