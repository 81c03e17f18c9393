// Shape arithmetic at its limits.
#include "assay/core/shape.h"

#include <gtest/gtest.h>

#include <limits>

namespace assay {
namespace {

constexpr auto kMax = std::numeric_limits<std::int64_t>::max();

TEST(Shape, Numel) {
  EXPECT_EQ(checked_numel({}), 1);
  EXPECT_EQ(checked_numel({2, 3, 4}), 24);
  EXPECT_EQ(checked_numel({0}), 0);
  EXPECT_EQ(checked_numel({0, 3}), 0);
  EXPECT_EQ(checked_numel({kMax}), kMax);
}

TEST(Shape, NumelNeverWraps) {
  EXPECT_FALSE(checked_numel({kMax, 2}));
  EXPECT_FALSE(checked_numel({std::int64_t{1} << 32, std::int64_t{1} << 31}));
  EXPECT_FALSE(checked_numel({std::int64_t{1} << 32, std::int64_t{1} << 32}));
  EXPECT_FALSE(checked_numel({-1}));
  EXPECT_FALSE(checked_numel({-2, -3}));
  EXPECT_FALSE(checked_numel({0, -1}));
  EXPECT_FALSE(checked_numel({kMax, 2, 0}));  // strides would wrap
  EXPECT_FALSE(checked_numel({0, kMax, 2}));
}

// Index 16384 times stride 131072 is 2^31: offsets are 64 bit.
TEST(Shape, F41_OffsetsAre64Bit) {
  EXPECT_EQ(checked_numel({16384, 131072}), std::int64_t{1} << 31);
  EXPECT_EQ(contiguous_strides({2, 16384, 131072})[0], std::int64_t{1} << 31);
}

TEST(Shape, Strides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Shape{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({}), Shape{});
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Shape{4, 4, 1}));
}

TEST(Shape, Text) {
  EXPECT_EQ(to_string({}), "[]");
  EXPECT_EQ(to_string({2, 3}), "[2, 3]");
  EXPECT_EQ(index_text({2, 3, 4}, 23), "[1, 2, 3]");
  EXPECT_EQ(index_text({2, 3, 4}, 5), "[0, 1, 1]");
  EXPECT_EQ(index_text({}, 0), "[]");
}

}  // namespace
}  // namespace assay
