#include <gmock/gmock.h>

#include <cmath>

#include "assay/base/parallel.h"
#include "tests/te/parallel/parallel_test.h"

namespace assay::te {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// What rank r holds, on every rank.
Tensor of_rank(DType dtype, const Shape& shape, int r) {
  return normal(dtype, shape, 100 + static_cast<unsigned>(r));
}

// fp32 from the left in the order of the ranks, rounded once: as collectives.h
// says, in plain loops.
Tensor expected_sum(DType dtype, const Shape& shape) {
  Tensor out = Tensor::empty(dtype, shape);
  std::vector<Tensor> parts;
  for (int r = 0; r < ranks(); ++r) parts.push_back(of_rank(dtype, shape, r));
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    const auto at = [&](const Tensor& t) {
      return static_cast<float>(load_as_double(dtype, t.view.data, i));
    };
    float sum = at(parts[0]);
    for (std::size_t r = 1; r < parts.size(); ++r) sum += at(parts[r]);
    store_from_double(dtype, static_cast<double>(sum), out.mutable_data(), i,
                      Overflow::kSpecial);
  }
  return out;
}

TEST(Collectives, GathersTheFirstDimension) {
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kI64, DType::kU8, DType::kE2M1}) {
    for (const std::int64_t rows : {0, 1, 3}) {
      const Tensor whole = normal(dtype, {rows * ranks(), 2, 4}, 1);
      expect_same_bits(all_gather_first_dim(part_of(whole), *group()), whole,
                       std::string(traits(dtype).name));
    }
  }
}

TEST(Collectives, GathersTheLastDimension) {
  for (const std::int64_t rows : {0, 1, 5}) {
    const Tensor whole = normal(DType::kBF16, {rows, 2, 3 * ranks()}, 2);
    const Tensor part = columns_of(whole);
    ASSERT_EQ(part.shape(), (Shape{rows, 2, 3}));
    expect_same_bits(all_gather_last_dim(part, *group()), whole, "last");
  }
}

// A strided part gives what its contiguous copy gives.
TEST(Collectives, F39_StridedInputsAreReadAsTheyAre) {
  const Tensor whole = normal(DType::kF32, {6, 4}, 3);
  Tensor transposed = whole;
  transposed.view.shape = {4, 6};
  transposed.view.strides = {1, 4};
  Tensor copy = Tensor::empty(DType::kF32, {4, 6});
  for (std::int64_t i = 0; i < 24; ++i)
    copy.mutable_data<float>()[i] = whole.data<float>()[i % 6 * 4 + i / 6];
  Communicator& g = *group();
  expect_same_bits(all_gather_first_dim(transposed, g),
                   all_gather_first_dim(copy, g), "gather");
  expect_same_bits(all_gather_last_dim(transposed, g),
                   all_gather_last_dim(copy, g), "gather last");
  expect_same_bits(reduce_scatter_first_dim(transposed, g),
                   reduce_scatter_first_dim(copy, g), "scatter");
  expect_same_bits(all_reduce_sum(transposed, g), all_reduce_sum(copy, g),
                   "reduce");
  expect_same_bits(slice_first_dim(transposed, g), slice_first_dim(copy, g),
                   "slice");
  EXPECT_THAT(error_of([&] { all_reduce_sum_in_place(transposed, g); }),
              HasSubstr("all_reduce_sum: x: "));
}

TEST(Collectives, SumsAreInTheOrderOfTheRanks) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    // Both ways of reducing: few bytes, many bytes with a ragged last run.
    for (const Shape& shape : {Shape{4, 0}, Shape{4, 3}, Shape{4, 20011}}) {
      const Tensor own = of_rank(dtype, shape, rank());
      const Tensor expected = expected_sum(dtype, shape);
      const std::string what =
          std::string(traits(dtype).name) + to_string(shape);
      expect_same_bits(all_reduce_sum(own, *group()), expected, what);
      expect_same_bits(reduce_scatter_first_dim(own, *group()),
                       part_of(expected), what + " scattered");
      Tensor changed = of_rank(dtype, shape, rank());
      all_reduce_sum_in_place(changed, *group());
      expect_same_bits(changed, expected, what + " in place");
    }
  }
}

// 2^24 + 1 - 2^24 from the left is 0 in fp32 and 1 in fp64; bf16 parts are not
// added in bf16.
TEST(Collectives, F48_SumsAreNotFormedInTheDtype) {
  if (ranks() != 4) GTEST_SKIP() << "four parts";
  const float parts[] = {16777216.0f, 1.0f, 1.0f, -16777216.0f};
  Tensor x = f32({1}, {parts[rank()]});
  EXPECT_EQ(all_reduce_sum(x, *group()).data<float>()[0], 0.0f);
  x.device = Device::kReference;
  EXPECT_EQ(all_reduce_sum(x, *group()).data<float>()[0], 2.0f);
  // 256 + 1 + 1 + 1: 256 in bf16 steps, 259 in fp32, 260 (to even) once
  // rounded.
  const float small[] = {256.0f, 1.0f, 1.0f, 1.0f};
  const std::vector<float> own = {small[rank()]};
  const Tensor b = tensor_of(DType::kBF16, {1}, own);
  EXPECT_EQ(floats(all_reduce_sum(b, *group())), std::vector<float>{260.0f});
}

TEST(Collectives, ThreadsDoNotChangeSums) {
  const Tensor own = of_rank(DType::kBF16, {4, 70001}, rank());
  set_thread_count(4);
  const Tensor four = all_reduce_sum(own, *group());
  set_thread_count(1);
  expect_same_bits(all_reduce_sum(own, *group()), four, "threads");
}

TEST(Collectives, UnevenDimensionsAreRefusedOnEveryRank) {
  if (ranks() == 1) GTEST_SKIP() << "one rank takes every size";
  const Tensor x = normal(DType::kF32, {ranks() + 1, 3}, 5);
  const std::string wanted = std::to_string(ranks() + 1) +
                             ", expected a multiple of " +
                             std::to_string(ranks());
  EXPECT_EQ(error_of([&] { reduce_scatter_first_dim(x, *group()); }),
            "reduce_scatter_first_dim: x: first dimension: " + wanted);
  EXPECT_EQ(error_of([&] { slice_first_dim(x, *group()); }),
            "slice_first_dim: x: first dimension: " + wanted);
  const Tensor y = normal(DType::kF32, {3, ranks() + 1}, 5);
  EXPECT_EQ(error_of([&] { slice_last_dim(y, *group()); }),
            "slice_last_dim: x: last dimension: " + wanted);
}

// Whatever one rank has that the others have not, all of them throw, and the
// group can go on.
TEST(Collectives, RanksThatDifferAreNamedOnEveryRank) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const std::string others = ranks() == 2 ? "rank 0" : "ranks 0, 2, 3";
  // The same bytes in another shape: no transport can tell.
  const Tensor x =
      normal(DType::kF32, rank() == 1 ? Shape{4, 2} : Shape{2, 4}, 5);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { all_gather_first_dim(x, *group()); },
           [&] { all_gather_last_dim(x, *group()); },
           [&] { all_reduce_sum(x, *group()); },
           [&] { require_same_everywhere(x, "what", *group()); }}) {
    EXPECT_THAT(error_of(call),
                HasSubstr(": the ranks differ: " + others +
                          ": float32 [2, 4] on cpu; rank 1: float32 [4, 2]"));
  }
  const Tensor y = normal(rank() == 1 ? DType::kF16 : DType::kBF16, {4}, 5);
  EXPECT_THAT(error_of([&] { all_reduce_sum(y, *group()); }),
              HasSubstr("rank 1: float16 [4]"));
  // What only one rank refuses.
  const Tensor z = normal(rank() == 1 ? DType::kI32 : DType::kF32, {4}, 5);
  EXPECT_THAT(error_of([&] { all_reduce_sum(z, *group()); }),
              AllOf(StartsWith(rank() == 1 ? "all_reduce_sum: x" : "rank 1: "),
                    HasSubstr("int32")));
  const Tensor none = rank() == 1 ? Tensor{} : normal(DType::kF32, {4}, 5);
  EXPECT_NE(error_of([&] { all_gather_first_dim(none, *group()); }),
            "no error");
  const Tensor good = all_gather_first_dim(f32({1}, {1.0f}), *group());
  EXPECT_EQ(good.numel(), ranks());
}

TEST(Collectives, PackedElementsFillBytes) {
  const Tensor x = normal(DType::kE2M1, {1, 3}, 5);
  if (ranks() == 1) {
    expect_same_bits(all_gather_first_dim(x, *group()), x, "one rank");
    return;
  }
  EXPECT_THAT(error_of([&] { all_gather_first_dim(x, *group()); }),
              HasSubstr("whole bytes from every rank"));
  EXPECT_THAT(error_of([&] { slice_last_dim(x, *group()); }),
              HasSubstr("a dtype of whole bytes"));
}

}  // namespace
}  // namespace assay::te
