// Transposes, padding, splitting, interleaving: values worked by hand, every
// dtype, both ways.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "assay/base/round_up.h"
#include "assay/te/ops/interleave.h"
#include "assay/te/ops/pad.h"
#include "assay/te/ops/split.h"
#include "assay/te/ops/transpose.h"
#include "tests/te/ops/row_op_helpers.h"

namespace assay::te {
namespace {

using Sizes = std::vector<std::int64_t>;

// 0, 1, 2 ... as codes: bytes that are all different for small tensors.
Tensor counting(DType dtype, Shape shape) {
  Tensor t = Tensor::empty(dtype, std::move(shape));
  for (std::int64_t i = 0; i < t.numel(); ++i)
    store_code(dtype, static_cast<std::uint64_t>(i), t.mutable_data(), i);
  return t;
}

TEST(Transpose, EveryDtype) {
  for (const DTypeTraits& traits : kDTypes) {
    if (is_complex(traits.id)) continue;
    const Tensor x = counting(traits.id, {2, 3, 10});
    const Tensor y = transpose(x);
    ASSERT_EQ(y.shape(), (Shape{10, 6})) << traits.name;
    for (std::int64_t r = 0; r < 6; ++r)
      for (std::int64_t c = 0; c < 10; ++c)
        ASSERT_EQ(load_code(traits.id, y.view.data, c * 6 + r),
                  load_code(traits.id, x.view.data, r * 10 + c))
            << traits.name;
  }
}

TEST(Transpose, LargeEnoughToStreamAndBackAgain) {
  for (DType dtype : {DType::kU8, DType::kU16, DType::kF32, DType::kI64}) {
    const Tensor x = counting(dtype, {2113, 2050});
    const Tensor y = transpose(x);
    EXPECT_TRUE(same_bits(transpose(y), x));
    for (std::int64_t i = 0; i < x.numel(); i += 997)
      ASSERT_EQ(load_code(dtype, x.view.data, i),
                load_code(dtype, y.view.data, i % 2050 * 2113 + i / 2050));
  }
}

TEST(Transpose, StridedComplexAndEmpty) {
  const Tensor x = normal_tensor({5, 7}, DType::kF32, 1);
  EXPECT_TRUE(same_bits(transpose(strided_like(x)), transpose(x)));
  Tensor wide = Tensor::empty(DType::kC128, {2, 3});
  for (int i = 0; i < 12; ++i) wide.mutable_data<double>()[i] = i;
  const Tensor turned = transpose(wide);
  const std::vector<double> expected = {0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11};
  EXPECT_EQ(
      std::vector<double>(turned.data<double>(), turned.data<double>() + 12),
      expected);
  EXPECT_EQ(transpose(Tensor::empty(DType::kF32, {0, 4})).shape(),
            (Shape{4, 0}));
  EXPECT_EQ(error_of([] {
              transpose(counting(DType::kE2M1, {3, 4}));
            }),
            "transpose: x: rows of packed codes: 3, expected a multiple of 2");
}

TEST(SwapFirstDims, ByHandAndItsOwnInverse) {
  const Tensor x =
      make_tensor({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {2, 3, 2});
  EXPECT_EQ(values_of(swap_first_dims(x)),
            (std::vector<double>{0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11}));
  for (Shape shape : {Shape{3, 5}, Shape{3, 5, 3}, Shape{4, 2, 1, 7}}) {
    const Tensor y = normal_tensor(shape, DType::kBF16, 3);
    EXPECT_TRUE(same_bits(swap_first_dims(swap_first_dims(y)), y));
  }
  error_of([] { swap_first_dims(Tensor::empty(DType::kF32, {3})); });
}

TEST(Pad, RowsAreAppendedAndTakenOff) {
  const Tensor a = make_tensor({1, 2, 3, 4}, {2, 2});
  const Tensor b = make_tensor({5, 6}, {1, 2}, DType::kBF16);
  const std::vector<Tensor> both = {a, b};
  const auto padded = multi_pad_rows(both, Sizes{3, 2});
  EXPECT_EQ(values_of(padded[0]), (std::vector<double>{1, 2, 3, 4, 0, 0}));
  EXPECT_EQ(values_of(padded[1]), (std::vector<double>{5, 6, 0, 0}));
  const auto back = multi_unpad_rows(padded, Sizes{2, 1});
  EXPECT_TRUE(same_bits(back[0], a));
  EXPECT_TRUE(same_bits(back[1], b));
  EXPECT_NE(error_of([&] {
              multi_pad_rows(both, Sizes{1, 1});
            }).find("padded_rows: 1 for shape [2, 2]"),
            std::string::npos);
}

TEST(Pad, GroupsWithEmptyOnes) {
  const Tensor x = make_tensor({1, 2, 3, 4, 5, 6}, {3, 2});
  const Sizes rows = {1, 0, 2}, padded = {2, 0, 4};
  const Tensor y = pad_groups(x, rows, padded);
  EXPECT_EQ(values_of(y),
            (std::vector<double>{1, 2, 0, 0, 3, 4, 5, 6, 0, 0, 0, 0}));
  EXPECT_TRUE(same_bits(unpad_groups(y, rows, padded), x));
  EXPECT_EQ(values_of(pad_last_dim(x, 3)),
            (std::vector<double>{1, 2, 0, 3, 4, 0, 5, 6, 0}));
  EXPECT_EQ(round_up<std::int64_t>(0, 16), 0);
  EXPECT_EQ(round_up<std::int64_t>(16, 16), 16);
  EXPECT_EQ(round_up<std::int64_t>(17, 16), 32);
}

TEST(Split, AlongEveryDimension) {
  const Tensor x = counting(DType::kI32, {2, 3, 4});
  const auto columns = split(x, Sizes{1, 3}, -1);
  EXPECT_EQ(values_of(columns[0]), (std::vector<double>{0, 4, 8, 12, 16, 20}));
  for (int dim : {0, 1, 2}) {
    const Sizes sizes = dim == 0   ? Sizes{1, 1}
                        : dim == 1 ? Sizes{2, 0, 1}
                                   : Sizes{3, 1};
    EXPECT_TRUE(same_bits(concatenate(split(x, sizes, dim), dim), x)) << dim;
  }
  EXPECT_EQ(error_of([&] {
              split(x, Sizes{1, 1}, 1);
            }),
            "split: sizes: a sum of 2, expected 3 (dimension 1)");
  error_of([&] { split(x, Sizes{2}, 3); });
}

TEST(Interleave, RowsByHand) {
  const Tensor x = make_tensor({0, 1, 2, 3, 10, 11, 12, 13}, {8});
  EXPECT_EQ(values_of(interleave_glu_rows(x, 2)),
            (std::vector<double>{0, 1, 10, 11, 2, 3, 12, 13}));
  const Tensor w = normal_tensor({12, 5}, DType::kBF16, 1);
  for (std::int64_t size : {1, 2, 3, 6})
    EXPECT_TRUE(same_bits(
        deinterleave_glu_rows(interleave_glu_rows(w, size), size), w));
  error_of([&] { interleave_glu_rows(w, 4); });
  error_of([&] { interleave_glu_rows(w, 0); });
}

// F41, F42: nothing of the result may keep what the memory held before.
TEST(Movement, F41_F42_NoUnwrittenTail) {
  const auto filled = [](std::size_t bytes) {
    Tensor t = Tensor::empty(DType::kU8, {static_cast<std::int64_t>(bytes)});
    std::fill_n(t.mutable_data(), bytes, std::byte{0x5a});
  };
  const Tensor x = Tensor::zeros(DType::kU8, {65536 + 8, 65});
  filled(x.view.bytes().size());  // the pool hands this block out next
  const Tensor y = transpose(x);
  for (std::byte b : y.view.bytes()) ASSERT_EQ(b, std::byte{0});
  filled(x.view.bytes().size());
  for (std::byte b : interleave_glu_rows(x, 1).view.bytes())
    ASSERT_EQ(b, std::byte{0});
}

TEST(Movement, SameBitsForAnyNumberOfThreads) {
  const Tensor x = normal_tensor({1030, 700}, DType::kBF16, 1);
  expect_thread_invariance(
      [&] {
        return std::vector<Tensor>{transpose(x), swap_first_dims(x),
                                   interleave_glu_rows(x, 5),
                                   pad_last_dim(x, 768)};
      },
      "movement");
}

}  // namespace
}  // namespace assay::te
