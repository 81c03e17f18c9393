// What fingerprints of tensors have in common, and what they have not.
#include "assay/env/fingerprint.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "assay/base/hash.h"
#include "assay/base/parallel.h"
#include "assay/trace/capture_content.h"

namespace assay::env {
namespace {

template <typename T>
TensorPrint of(DType dtype, Shape shape, const std::vector<T>& values) {
  TensorView view;
  view.dtype = dtype;
  view.shape = std::move(shape);
  view.data = reinterpret_cast<const std::byte*>(values.data());
  return fingerprint(view, true);
}

// bfloat16 by cutting: for values that fit.
std::vector<std::uint16_t> cut(const std::vector<float>& values) {
  std::vector<std::uint16_t> codes;
  for (const float value : values)
    codes.push_back(
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
  return codes;
}

TEST(Fingerprint, IsTheHashOfACapture) {
  const std::vector<float> values = {1, 2, 3, 4};
  const TensorPrint print = of(DType::kF32, {2, 2}, values);
  TensorView view;
  view.dtype = DType::kF32;
  view.shape = {2, 2};
  view.data = reinterpret_cast<const std::byte*>(values.data());
  EXPECT_EQ(print.hash, to_hex(content_hash(view)));
  EXPECT_EQ(print.dtype, "float32");
  EXPECT_EQ(print.statistics.at("max"), "4.0");
  EXPECT_EQ(print.statistics.at("mean"), "2.5");
}

TEST(Fingerprint, TheSameValuesInAnotherDtype) {
  const std::vector<float> values = {1, -2, 0.5, 96};
  const TensorPrint wide = of(DType::kF32, {4}, values);
  const TensorPrint narrow = of(DType::kBF16, {4}, cut(values));
  EXPECT_NE(wide.hash, narrow.hash);
  EXPECT_EQ(wide.as.at("values"), narrow.as.at("values"));
  EXPECT_EQ(
      of(DType::kI64, {2}, std::vector<std::int64_t>{3, 4}).as.at("values"),
      of(DType::kI32, {2}, std::vector<std::int32_t>{3, 4}).as.at("values"));
}

// 1.00390625 = 1 + 2^-8 is a tie, which goes to the even 1; 1.01171875 is one
// and a half, which goes to 1.015625.
TEST(Fingerprint, ValuesRoundedToBfloat16) {
  const TensorPrint wide =
      of(DType::kF32, {2}, std::vector<float>{1.00390625F, 1.01171875F});
  const TensorPrint narrow = of(DType::kBF16, {2}, cut({1.0F, 1.015625F}));
  EXPECT_EQ(wide.as.at("bfloat16"), narrow.as.at("values"));
  EXPECT_NE(wide.as.at("values"), narrow.as.at("values"));
  EXPECT_EQ(narrow.as.count("bfloat16"), 0U);
}

TEST(Fingerprint, OrdersOfElementsAndRows) {
  const TensorPrint a =
      of(DType::kF32, {2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  const TensorPrint transposed =
      of(DType::kF32, {3, 2}, std::vector<float>{1, 4, 2, 5, 3, 6});
  const TensorPrint rows =
      of(DType::kF32, {2, 3}, std::vector<float>{4, 5, 6, 1, 2, 3});
  const TensorPrint repeated =
      of(DType::kF32, {2, 3}, std::vector<float>{1, 1, 3, 4, 5, 6});
  EXPECT_EQ(a.as.at("elements"), transposed.as.at("elements"));
  EXPECT_EQ(a.as.at("rows"), rows.as.at("rows"));
  EXPECT_NE(a.as.at("rows"), transposed.as.at("rows"));
  EXPECT_NE(a.as.at("elements"), repeated.as.at("elements"));
  EXPECT_EQ(a.as.at("each_row").substr(0, 16),
            rows.as.at("each_row").substr(16));
  // A reshape keeps the values in their order.
  EXPECT_EQ(a.as.at("values"),
            of(DType::kF32, {6}, std::vector<float>{1, 2, 3, 4, 5, 6})
                .as.at("values"));
}

// F65: a sum that cancels repeats would take ones for zeros.
TEST(Fingerprint, RepeatedValuesDoNotCancel) {
  const TensorPrint ones = of(DType::kF32, {4}, std::vector<float>(4, 1.0F));
  const TensorPrint zeros = of(DType::kF32, {4}, std::vector<float>(4, 0.0F));
  EXPECT_NE(ones.hash, zeros.hash);
  EXPECT_NE(ones.as.at("elements"), zeros.as.at("elements"));
  EXPECT_NE(ones.as.at("rows"), zeros.as.at("rows"));
}

TEST(Fingerprint, BigIntegersAreNotRounded) {
  const std::int64_t big = 9007199254740992;  // 2^53
  EXPECT_NE(
      of(DType::kI64, {1}, std::vector<std::int64_t>{big}).as.at("values"),
      of(DType::kI64, {1}, std::vector<std::int64_t>{big + 1}).as.at("values"));
}

TEST(Fingerprint, StridesAndThreadsChangeNothing) {
  std::vector<float> values(100'000), turned(100'000);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 977) * 0.37F;
  TensorView strided;
  strided.dtype = DType::kF32;
  strided.shape = {500, 200};
  strided.strides = {1, 500};
  strided.data = reinterpret_cast<const std::byte*>(values.data());
  for (std::size_t i = 0; i < 500; ++i)
    for (std::size_t j = 0; j < 200; ++j)
      turned[i * 200 + j] = values[j * 500 + i];
  const TensorPrint a = fingerprint(strided, true);
  set_thread_count(1);
  const TensorPrint b = of(DType::kF32, {500, 200}, turned);
  set_thread_count(0);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.as, b.as);
  EXPECT_EQ(a.statistics, b.statistics);
}

TEST(Fingerprint, EmptyScalarAndNonFinite) {
  const TensorPrint empty = of(DType::kF32, {0, 3}, std::vector<float>());
  EXPECT_EQ(empty.as.count("rows"), 0U);
  EXPECT_TRUE(empty.statistics.empty());
  const TensorPrint scalar = of(DType::kF32, Shape(), std::vector<float>{NAN});
  EXPECT_EQ(scalar.statistics.at("nan"), "1");
  EXPECT_EQ(scalar.statistics.count("max"), 0U);
  EXPECT_NE(of(DType::kF32, {1}, std::vector<float>{0.0F}).as.at("values"),
            of(DType::kF32, {1}, std::vector<float>{-0.0F}).as.at("values"));
}

}  // namespace
}  // namespace assay::env
