// Packed sequences for context parallelism, by hand and there and back.
#include "assay/te/ops/sequence.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

Tensor lengths(const std::vector<double>& running) {
  return make_tensor(running, {static_cast<std::int64_t>(running.size())},
                     DType::kI32);
}

TEST(Sequence, PartitionByHand) {
  const Tensor cu = lengths({0, 4, 4, 12});  // lengths 4, 0, 8
  EXPECT_EQ(values_of(thd_partition_indices(cu, 2, 0)),
            (std::vector<double>{0, 3, 4, 5, 10, 11}));
  EXPECT_EQ(values_of(thd_partition_indices(cu, 2, 1)),
            (std::vector<double>{1, 2, 6, 7, 8, 9}));
  EXPECT_EQ(error_of([] {
              thd_partition_indices(lengths({0, 6}), 2, 0);
            }),
            "thd_partition_indices: length of sequence 0: 6, expected a "
            "multiple of 4");
  error_of([&] { thd_partition_indices(cu, 2, 2); });
  error_of([] { thd_partition_indices(lengths({0, 8, 4}), 2, 0); });
}

TEST(Sequence, RankOrderAndBack) {
  const Tensor cu = lengths({0, 4, 12});
  const Tensor x = make_tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {12});
  EXPECT_EQ(values_of(thd_to_rank_order(x, cu, 2)),
            (std::vector<double>{0, 3, 4, 5, 10, 11, 1, 2, 6, 7, 8, 9}));
  const Tensor wide = normal_tensor({12, 3, 5}, DType::kBF16, 1);
  EXPECT_TRUE(same_bits(
      thd_from_rank_order(thd_to_rank_order(wide, cu, 2), cu, 2), wide));
  error_of([&] { thd_to_rank_order(make_tensor({1, 2}, {2}), cu, 2); });
}

TEST(Sequence, HalvesAndPadding) {
  const Tensor cu = lengths({0, 2, 6});
  const Tensor x = make_tensor({0, 1, 2, 3, 4, 5}, {6, 1});
  EXPECT_EQ(values_of(thd_read_half(x, cu, 0)), (std::vector<double>{0, 2, 3}));
  EXPECT_EQ(values_of(thd_read_half(x, cu, 1)), (std::vector<double>{1, 4, 5}));
  const Tensor padded = thd_to_bshd(x, cu, 5);
  EXPECT_EQ(padded.shape(), (Shape{2, 5, 1}));
  EXPECT_EQ(values_of(padded),
            (std::vector<double>{0, 1, 0, 0, 0, 2, 3, 4, 5, 0}));
  EXPECT_TRUE(same_bits(bshd_to_thd(padded, cu), x));
  error_of([&] { thd_to_bshd(x, cu, 3); });
}

}  // namespace
}  // namespace assay::te
