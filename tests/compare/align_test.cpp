// Alignment against the quadratic textbook algorithm.
#include "assay/compare/align.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

namespace assay {
namespace {

std::size_t longest_common_subsequence(const std::vector<std::uint32_t>& a,
                                       const std::vector<std::uint32_t>& b) {
  std::vector<std::vector<std::size_t>> best(
      a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      best[i][j] = a[i - 1] == b[j - 1]
                       ? best[i - 1][j - 1] + 1
                       : std::max(best[i - 1][j], best[i][j - 1]);
    }
  }
  return best[a.size()][b.size()];
}

RC_GTEST_PROP(Align, IsALongestCommonSubsequence, ()) {
  const auto letter = rc::gen::inRange<std::uint32_t>(0, 4);
  const auto a = *rc::gen::container<std::vector<std::uint32_t>>(letter);
  const auto b = *rc::gen::container<std::vector<std::uint32_t>>(letter);
  const auto pairs = align(a, b, 1000);
  RC_ASSERT(pairs.has_value());
  RC_ASSERT(pairs->size() == longest_common_subsequence(a, b));
  for (std::size_t i = 0; i < pairs->size(); ++i) {
    const auto [x, y] = (*pairs)[i];
    RC_ASSERT(a.at(x) == b.at(y));
    if (i > 0) {
      RC_ASSERT((*pairs)[i - 1].first < x);
      RC_ASSERT((*pairs)[i - 1].second < y);
    }
  }
}

TEST(Align, GivesUpBeyondTheAllowedEdits) {
  const std::vector<std::uint32_t> a = {1, 2, 3};
  const std::vector<std::uint32_t> b = {4, 5, 6};
  EXPECT_FALSE(align(a, b, 5).has_value());
  EXPECT_TRUE(align(a, b, 6).has_value());
}

}  // namespace
}  // namespace assay
