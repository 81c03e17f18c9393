// Which figures a row carries, and what has none. The figures themselves:
// detail_oracle_test.cpp.
#include "assay/precheck/detail/detail.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/parallel.h"
#include "assay/numerics/element.h"
#include "assay/precheck/detail/row_name.h"

namespace assay::precheck {
namespace {

Tensor tensor_of(DType dtype, const std::vector<double>& values) {
  Tensor tensor =
      Tensor::zeros(dtype, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    store_from_double(dtype, values[i], tensor.mutable_data(),
                      static_cast<std::int64_t>(i));
  return tensor;
}

Detail detail_of(DType golden, DType device, const std::vector<double>& x,
                 const std::vector<double>& y, DetailOptions options = {}) {
  return make_detail("Torch.add.0.forward.output.0", tensor_of(golden, x).view,
                     tensor_of(device, y).view, options);
}

// Relative error rates in a row have msprobe judge it as one of an 8-bit input.
TEST(Detail, CarriesTheFiguresThatMsprobeChooses) {
  const std::vector<double> x = {1, 2, 1e-7}, y = {1, 2.5, 2e-7};
  Detail row = detail_of(DType::kF64, DType::kF32, x, y);
  EXPECT_TRUE(row.rmse && row.mean_rel && row.cosine && row.thousandth);
  EXPECT_FALSE(row.rel_error_ratio || row.mean_ulp || row.binary_error_rate);

  DetailOptions options;
  options.float8_input = true;
  row = detail_of(DType::kF64, DType::kF32, x, y, options);
  EXPECT_FALSE(row.rmse || row.mean_ulp);
  EXPECT_EQ(row.rel_error_ratio, 0.5);
  EXPECT_EQ(row.abs_error_ratio, 1.0);
  EXPECT_EQ(row.inf_nan_error_ratio, 0.0);

  row = detail_of(DType::kF32, DType::kE4M3FN, x, y);
  EXPECT_FALSE(row.rmse || row.rel_error_ratio);
  // 2 is stored as 2, 2.5 as 2.5: half of the spacing at 2, 2^(1 - 3), twice.
  EXPECT_EQ(row.max_ulp, 2.0);

  row = detail_of(DType::kF64, DType::kF64, x, y);
  EXPECT_FALSE(row.rmse || row.rel_error_ratio || row.mean_ulp);
  EXPECT_TRUE(row.cosine && row.max_abs);
}

TEST(Detail, TheProfileSetsWhatIsSmall) {
  const std::vector<double> x = {0x1p-15, 1}, y = {0x1p-16, 1};
  // Above the 2^-20 of msprobe's code, below the 2^-14 of its documents.
  EXPECT_EQ(detail_of(DType::kF64, DType::kF32, x, y).small_value_error_ratio,
            0.0);
  DetailOptions options;
  options.profile = &ratio_profile("published");
  EXPECT_EQ(detail_of(DType::kF64, DType::kF32, x, y, options)
                .small_value_error_ratio,
            1.0);
  EXPECT_THROW(ratio_profile("msprobe"), Error);
}

TEST(Detail, IntegersAreExactBeyondFp64) {
  const double big = 0x1p60;
  Tensor golden = tensor_of(DType::kI64, {big, 2, 3, 4});
  Tensor device = tensor_of(DType::kI64, {big, 2, 3, 4});
  device.mutable_data<std::int64_t>()[0] += 1;  // fp64 does not see it
  Detail row =
      make_detail("Torch.add.0.forward.output.0", golden.view, device.view);
  EXPECT_EQ(row.binary_error_rate, 0.25);
  EXPECT_FALSE(row.max_abs);
  judge_detail(row);
  EXPECT_EQ(row.status, "error");

  row = make_detail("NPU.npu_dynamic_quant.0.forward.output.0", golden.view,
                    device.view);
  EXPECT_EQ(row.max_abs, 1.0);
  judge_detail(row);
  EXPECT_EQ(row.status, "pass");
  // int16, which msprobe refuses to compare.
  row = detail_of(DType::kI16, DType::kI16, {1, 2}, {1, 2});
  judge_detail(row);
  EXPECT_EQ(row.status, "pass");
}

TEST(Detail, WhatHasNoFiguresIsNoPass) {
  for (const auto& [golden, device] :
       {std::pair{DType::kC64, DType::kC64}, {DType::kF32, DType::kI32}}) {
    Detail row = make_detail("Torch.add.0.forward.output.0",
                             Tensor::zeros(golden, {4}).view,
                             Tensor::zeros(device, {4}).view);
    EXPECT_FALSE(row.rmse || row.max_abs || row.binary_error_rate);
    judge_detail(row);
    EXPECT_EQ(row.status, "error");
  }
  Detail empty = detail_of(DType::kF64, DType::kF32, {}, {});
  judge_detail(empty);
  EXPECT_EQ(empty.status, "SKIP");
  EXPECT_THROW(detail_of(DType::kF64, DType::kF32, {1}, {1, 2}), Error);
}

// Float8, of which msprobe has no status: by its share of ULPs.
TEST(Detail, Float8IsJudgedByUlps) {
  Detail row = detail_of(DType::kF32, DType::kE5M2, {1, 2, -3}, {1, 2, -3});
  judge_detail(row);
  EXPECT_EQ(row.status, "pass");
  row = detail_of(DType::kF32, DType::kE5M2, {1, 2, -3}, {1, 2.5, -3});
  judge_detail(row);
  EXPECT_EQ(row.status, "error");
}

TEST(Detail, AreTheSameForAnyThreadsAndStrides) {
  std::vector<double> x, y;
  for (int i = 0; i < 100'000; ++i) {
    x.push_back(std::sin(i * 0.7));
    y.push_back(x.back() * (1 + 1e-4 * std::cos(i)));
  }
  set_thread_count(1);
  const Detail one = detail_of(DType::kF64, DType::kF32, x, y);
  set_thread_count(4);
  const Detail four = detail_of(DType::kF64, DType::kF32, x, y);
  set_thread_count(0);
  EXPECT_EQ(one.rmse, four.rmse);
  EXPECT_EQ(one.mean_rel, four.mean_rel);
  EXPECT_EQ(one.cosine, four.cosine);

  // Rows and columns exchanged on both sides: the same pairs in another order.
  Tensor golden = tensor_of(DType::kF64, x), device = tensor_of(DType::kF32, y);
  golden.view.shape = device.view.shape = {400, 250};
  golden.view.strides = device.view.strides = {1, 400};
  const Detail turned =
      make_detail("Torch.add.0.forward.output.0", golden.view, device.view);
  EXPECT_EQ(turned.shape, "(400, 250)");
  EXPECT_EQ(turned.max_rel, one.max_rel);
  EXPECT_EQ(turned.error_balance, one.error_balance);
  EXPECT_NEAR(turned.rmse.value(), one.rmse.value(), 1e-18);
}

TEST(RowName, IsTakenApart) {
  const auto row = parse_row_name("Torch.linalg.inv.12.backward.output.1");
  ASSERT_TRUE(row);
  EXPECT_EQ(row->call, "Torch.linalg.inv.12");
  EXPECT_EQ(row->api, "linalg.inv");
  EXPECT_TRUE(row->backward);
  EXPECT_EQ(row->output, "output.1");
  EXPECT_FALSE(parse_row_name("Torch.add.0.forward.output.0")->backward);
  for (const char* bad : {"", "add", "Torch.0.forward.output.0",
                          "Torch.add.0.output.0", "Torch.add.0.forward.",
                          ".add.0.forward.output.0", "Torch.add..forward.o"})
    EXPECT_FALSE(parse_row_name(bad)) << bad;
}

}  // namespace
}  // namespace assay::precheck
