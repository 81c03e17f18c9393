// Summation whose bits depend only on the values and their order, never on
// the number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace assay {

// Elements that are added in sequence before their sum becomes a leaf of the
// tree. Short enough for a small error, long enough to hide the tree's cost.
inline constexpr std::int64_t kSumBlock = 256;

// Adds partial sums in a fixed binary tree (pairwise summation, Higham,
// Accuracy and Stability of Numerical Algorithms, 4.2): after n values the
// relative error is at most log2(n) roundings per sign-free sum, against n of
// a running sum. O(log n) memory. Feed the partial sums of fixed blocks in
// block order and the total is the same for any number of threads.
class PairwiseSum {
 public:
  constexpr void add(double value) {
    std::size_t level = 0;
    // Each trailing one bit of the count is a finished subtree of that size.
    for (; count_ >> level & 1; ++level) value = partial_[level] + value;
    partial_[level] = value;
    ++count_;
  }

  // The values so far: subtrees from the newest and smallest to the oldest.
  constexpr double total() const {
    double sum = 0;
    for (std::size_t level = 0; count_ >> level != 0; ++level)
      if (count_ >> level & 1) sum = partial_[level] + sum;
    return sum;
  }

 private:
  std::array<double, 64> partial_{};
  std::uint64_t count_ = 0;
};

// Sum of element(0) ... element(count - 1) in fp64: kSumBlock of them in
// sequence, the blocks pairwise.
template <typename Element>
constexpr double blocked_sum(std::int64_t count, Element element) {
  PairwiseSum blocks;
  for (std::int64_t begin = 0; begin < count; begin += kSumBlock) {
    const std::int64_t end =
        count - begin < kSumBlock ? count : begin + kSumBlock;
    double sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += element(i);
    blocks.add(sum);
  }
  return blocks.total();
}

}  // namespace assay
