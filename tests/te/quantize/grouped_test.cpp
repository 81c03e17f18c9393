// Groups quantised in one call are what each is alone.
#include "assay/te/quantize/grouped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "assay/base/error.h"
#include "assay/te/quantize/block128.h"
#include "assay/te/quantize/current.h"
#include "assay/te/quantize/mxfp8.h"
#include "assay/te/quantize/nvfp4.h"
#include "tests/te/quantize/values.h"

namespace assay::te {
namespace {

using testing::HasSubstr;

std::vector<std::unique_ptr<Quantizer>> quantizers() {
  std::vector<std::unique_ptr<Quantizer>> all;
  all.push_back(std::make_unique<MXFP8Quantizer>(DType::kE4M3FN));
  all.push_back(std::make_unique<MXFP8Quantizer>(DType::kE5M2, true));
  all.push_back(std::make_unique<NVFP4Quantizer>());
  all.push_back(
      std::make_unique<NVFP4Quantizer>(NVFP4Options{.with_2d = true}));
  all.push_back(std::make_unique<NVFP4Quantizer>(NVFP4Options{
      .rht = true, .stochastic_rounding = true, .random_seed = 3}));
  all.push_back(
      std::make_unique<CurrentScalingQuantizer>(CurrentScalingOptions{}));
  all.push_back(std::make_unique<Block128Quantizer>(Block128Options{}));
  return all;
}

Tensor rows_of(const Tensor& x, std::int64_t begin, std::int64_t n) {
  Tensor part = x;
  part.view.shape = {n, x.shape().back()};
  part.view.strides.clear();
  part.view.data += begin * x.shape().back() * 2;
  return part;
}

void expect_same(const std::optional<QuantizedData>& a,
                 const std::optional<QuantizedData>& b) {
  ASSERT_EQ(a.has_value(), b.has_value());
  if (!a) return;
  EXPECT_EQ(bytes_of(a->data), bytes_of(b->data));
  EXPECT_EQ(bytes_of(a->scale_inv), bytes_of(b->scale_inv));
  EXPECT_EQ(a->data.shape(), b->data.shape());
}

TEST(Grouped, SplitIsEachGroupByItself) {
  const Tensor x = random_values(DType::kBF16, {256, 96}, 51, 6);
  const std::int64_t rows[] = {0, 64, 96, 0, 32, 64, 0};
  for (const auto& quantizer : quantizers()) {
    const auto alone = quantizer->clone();
    const auto groups = quantize_split(*quantizer, x, rows);
    ASSERT_EQ(groups.size(), 7u);
    std::int64_t begin = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const QuantizedTensor q = alone->quantize(rows_of(x, begin, rows[g]));
      begin += rows[g];
      EXPECT_EQ(groups[g].shape, (Shape{rows[g], 96}));
      expect_same(groups[g].rowwise, q.rowwise);
      expect_same(groups[g].columnwise, q.columnwise);
    }
    const Tensor back = dequantize_split(groups, DType::kBF16);
    EXPECT_EQ(back.shape(), x.shape());
    EXPECT_EQ(bytes_of(rows_of(back, 64, 96)),
              bytes_of(dequantize(groups[2], DType::kBF16)));
  }
}

TEST(Grouped, SeveralTensorsInOneCall) {
  const std::vector<Tensor> xs = {random_values(DType::kBF16, {32, 64}, 52),
                                  random_values(DType::kBF16, {0, 32}, 53),
                                  random_values(DType::kBF16, {160, 32}, 54)};
  for (const auto& quantizer : quantizers()) {
    const auto alone = quantizer->clone();
    const auto together = quantizer->quantize_multi(xs);
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const QuantizedTensor q = alone->quantize(xs[i]);
      expect_same(together[i].rowwise, q.rowwise);
      expect_same(together[i].columnwise, q.columnwise);
    }
  }
}

TEST(Grouped, ColumnsMadeOfDecodedRows) {
  const Tensor x = random_values(DType::kBF16, {96, 64}, 55, 4);
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  quantizer.set_usage({true, false});
  const std::int64_t rows[] = {32, 0, 64};
  auto groups = quantize_split(quantizer, x, rows);
  requantize_columnwise(quantizer, groups);
  EXPECT_FALSE(quantizer.usage().columnwise) << "usage is put back";
  for (const QuantizedTensor& q : groups) {
    MXFP8Quantizer both(DType::kE4M3FN);
    const QuantizedTensor again =
        both.quantize(dequantize(*q.rowwise, q.shape, DType::kBF16));
    expect_same(q.columnwise, again.columnwise);
  }
}

TEST(Grouped, LayoutOfAllOfThem) {
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const std::int64_t rows[] = {32, 64};
  auto groups = quantize_split(quantizer,
                               random_values(DType::kBF16, {96, 64}, 56), rows);
  const auto values = bytes_of(dequantize_split(groups, DType::kF32));
  set_layout(groups, ScaleLayout::kSwizzled);
  EXPECT_EQ(groups[1].columnwise->layout, ScaleLayout::kSwizzled);
  EXPECT_EQ(bytes_of(dequantize_split(groups, DType::kF32)), values);
}

TEST(Grouped, RowsMustAddUp) {
  MXFP8Quantizer quantizer(DType::kE4M3FN);
  const Tensor x = Tensor::zeros(DType::kBF16, {96, 64});
  const auto message = [&](std::vector<std::int64_t> rows) -> std::string {
    try {
      quantize_split(quantizer, x, rows);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(message({32, 32}), HasSubstr("a sum of 64, expected 96"));
  EXPECT_THAT(message({-32, 128}), HasSubstr("rows: -32"));
  EXPECT_THAT(message({16, 80}), HasSubstr("a multiple of 32"));
}

}  // namespace
}  // namespace assay::te
