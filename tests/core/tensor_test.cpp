// Views: strided, expanded, packed; gather against a plain index loop.
#include "assay/core/tensor.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "assay/base/error.h"

namespace assay {
namespace {

template <typename T>
TensorView view_of(DType dtype, Shape shape, Shape strides,
                   const std::vector<T>& values) {
  return {dtype, std::move(shape), std::move(strides),
          reinterpret_cast<const std::byte*>(values.data())};
}

template <typename T>
std::vector<T> gathered(const TensorView& view, std::int64_t begin,
                        std::int64_t count) {
  std::vector<T> out(static_cast<std::size_t>(count));
  gather(view, begin, count, reinterpret_cast<std::byte*>(out.data()));
  return out;
}

std::vector<float> iota(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

TEST(Tensor, F67_TransposedView) {
  const auto values = iota(6);
  const auto view = view_of(DType::kF32, {3, 2}, {1, 3}, values);
  EXPECT_FALSE(view.is_contiguous());
  EXPECT_EQ(gathered<float>(view, 0, 6),
            (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(gathered<float>(view, 3, 2), (std::vector<float>{4, 2}));
  EXPECT_THROW(view.bytes(), Error);
}

TEST(Tensor, ExpandedView) {
  const auto values = iota(3);
  const auto view = view_of(DType::kF32, {2, 3, 2}, {0, 1, 0}, values);
  EXPECT_EQ(gathered<float>(view, 0, 12),
            (std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  const auto one = view_of(DType::kF32, {4}, {0}, values);
  EXPECT_FALSE(one.is_contiguous());
  EXPECT_EQ(gathered<float>(one, 1, 3), std::vector<float>(3, 0.0f));
}

TEST(Tensor, ContiguousWhateverOneLongDimensionsSay) {
  const auto values = iota(6);
  EXPECT_TRUE(
      view_of(DType::kF32, {2, 1, 3}, {3, 77, 1}, values).is_contiguous());
  EXPECT_TRUE(view_of(DType::kF32, {}, {}, values).is_contiguous());
  EXPECT_TRUE(view_of(DType::kF32, {0, 5}, {9, 9}, values).is_contiguous());
  EXPECT_FALSE(view_of(DType::kF32, {2, 2}, {3, 1}, values).is_contiguous());
}

TEST(Tensor, PackedFp4) {
  const std::vector<std::uint8_t> bytes = {0x21, 0x43, 0x65};
  const auto view = view_of(DType::kE2M1, {5}, {}, bytes);
  EXPECT_EQ(view.bytes().size(), 3u);
  std::vector<std::uint8_t> out(2, 0xff);
  gather(view, 2, 3, reinterpret_cast<std::byte*>(out.data()));
  EXPECT_EQ(out, (std::vector<std::uint8_t>{0x43, 0x65}));
}

TEST(Tensor, StridedPackedViewIsRefused) {
  const std::vector<std::uint8_t> bytes(8);
  const auto view = view_of(DType::kE2M1, {2, 2}, {1, 2}, bytes);
  std::byte out[4];
  EXPECT_THROW(gather(view, 0, 4, out), Error);
}

TEST(Tensor, EmptyGather) {
  gather(TensorView{DType::kF32, {0, 3}, {}, nullptr}, 0, 0, nullptr);
  EXPECT_EQ((TensorView{DType::kF32, {0, 3}, {}, nullptr}).numel(), 0);
}

TEST(Tensor, Zeros) {
  Tensor tensor = Tensor::zeros(DType::kI32, {2, 3});
  EXPECT_EQ(tensor.view.bytes().size(), 24u);
  for (const std::byte b : tensor.view.bytes()) EXPECT_EQ(b, std::byte{0});
  const std::int32_t seven = 7;
  std::memcpy(tensor.mutable_data() + 20, &seven, 4);
  EXPECT_EQ(tensor.view.bytes()[20], std::byte{7});
}

// Memory of its own may be written, whoever holds it; a mapping may not.
TEST(Tensor, OnlyWritableBytesAreHandedOutForWriting) {
  Tensor own = Tensor::empty(DType::kF32, {2});
  Tensor copy = own, zeros = Tensor::zeros(DType::kF32, {2});
  EXPECT_EQ(copy.mutable_data(), own.view.data);
  EXPECT_EQ(zeros.mutable_data(), zeros.view.data);
  const float values[2] = {1, 2};
  Tensor mapped{
      {DType::kF32, {2}, {}, reinterpret_cast<const std::byte*>(values)},
      nullptr};
  EXPECT_EQ(contiguous(mapped).view.data, mapped.view.data);
  Tensor strided = mapped;
  strided.view.shape = {2, 2};
  strided.view.strides = {0, 1};
  Tensor gathered = contiguous(strided);
  EXPECT_EQ(gathered.mutable_data<float>()[3], 2);
  try {
    mapped.mutable_data<float>();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_STREQ(error.what(),
                 "tensor [2]: read-only, expected memory to write");
  }
}

TEST(Tensor, ImpossibleSizesAreErrors) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(Tensor::zeros(DType::kF32, {kMax, 2}), Error);
  EXPECT_THROW(Tensor::zeros(DType::kF32, {kMax / 2}), Error);
#ifndef __SANITIZE_ADDRESS__  // whose allocator ends the process instead
  EXPECT_THROW(Tensor::zeros(DType::kU8, {kMax - 64}), Error);
#endif
  EXPECT_THROW((TensorView{DType::kF32, {-1}, {}, nullptr}).numel(), Error);
}

TEST(Tensor, ContiguousCopiesOnlyStridedOnes) {
  Tensor tensor = Tensor::zeros(DType::kU8, {2, 2});
  EXPECT_EQ(contiguous(tensor).view.data, tensor.view.data);
  tensor.mutable_data()[1] = std::byte{1};
  tensor.view.strides = {1, 2};
  const Tensor copy = contiguous(tensor);
  EXPECT_TRUE(copy.view.is_contiguous());
  EXPECT_EQ(copy.view.shape, (Shape{2, 2}));
  EXPECT_EQ(copy.view.bytes()[2], std::byte{1});
}

// Any view, any range, any element size: as a loop over indices reads it.
RC_GTEST_PROP(Tensor, GatherIsAnIndexLoop, ()) {
  const int rank = *rc::gen::inRange(1, 5);
  Shape shape, strides;
  std::int64_t reach = 1;
  for (int d = 0; d < rank; ++d) {
    shape.push_back(*rc::gen::inRange<std::int64_t>(1, 6));
    strides.push_back(*rc::gen::inRange<std::int64_t>(0, 7));
    reach += (shape.back() - 1) * strides.back();
  }
  const DType dtype = *rc::gen::elementOf(std::vector<DType>{
      DType::kU8, DType::kF16, DType::kI32, DType::kF64, DType::kC128});
  const auto bytes = static_cast<std::size_t>(traits(dtype).bits / 8);
  std::vector<std::uint8_t> data(static_cast<std::size_t>(reach) * bytes);
  std::iota(data.begin(), data.end(), std::uint8_t{0});
  const auto view = view_of(dtype, shape, strides, data);
  const std::int64_t n = view.numel();
  const auto begin = *rc::gen::inRange<std::int64_t>(0, n);
  const auto count = *rc::gen::inRange<std::int64_t>(0, n - begin + 1);
  std::vector<std::uint8_t> expected;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const auto at = static_cast<std::size_t>(d);
      offset += rest % shape[at] * strides[at];
      rest /= shape[at];
    }
    const auto* from = data.data() + static_cast<std::size_t>(offset) * bytes;
    expected.insert(expected.end(), from, from + bytes);
  }
  std::vector<std::uint8_t> out(expected.size());
  gather(view, begin, count, reinterpret_cast<std::byte*>(out.data()));
  RC_ASSERT(out == expected);
}

}  // namespace
}  // namespace assay
