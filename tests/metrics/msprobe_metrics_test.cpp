// msprobe's six metrics against values its own code printed.
#include "assay/metrics/msprobe_metrics.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/metrics/pair.h"

namespace assay {
namespace {

using test::tensor;
using test::Values;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Row {
  DType n_dtype;
  Values n;
  DType b_dtype;
  Values b;
  const char *cosine, *euc, *max_abs, *max_rel, *thousandth;
};

MsprobeMetrics of(const Tensor& n, const Tensor& b) {
  return msprobe_metrics(b.view, n.view);
}

// [run] rows of the tool itself, float32 unless named.
TEST(MsprobeMetrics, WorkedValues) {
  constexpr DType f = DType::kF32;
  const Row rows[] = {
      {f, {1, kInf, 2}, f, {1, -kInf, 2}, "1.0", "0.0", "0.0", "0.0", "1.0"},
      {f, {1, kNaN, 2}, f, {1, kNaN, 2}, "1.0", "0.0", "0.0", "0.0", "1.0"},
      {f, {1, kInf, 2}, f, {1, 3e38, 2}, "N/A", "N/A", "N/A", "N/A", "N/A"},
      {f,
       {1e-20, 1, 2},
       f,
       {0, 1, 2},
       "1.0",
       "9.999999682655225e-21",  // 1e-20 as float32
       "0.0",
       "0.0",
       "1.0"},
      {DType::kF64,
       {1e-13, 1e-13},
       DType::kF64,
       {2e-13, 1e-13},
       "0.948683298051",
       "1e-13",
       "0.0",
       "0.5",
       "0.5"},
      {f, {0, 0, 0, 0}, f, {1, 1, 1, 1}, "Nan", "2.0", "1.0", "1.0", "0.0"},
      {f, {0, 0}, f, {0, 0}, "1.0", "0.0", "0.0", "0.0", "1.0"},
      {DType::kBool,
       {1, 0},
       DType::kBool,
       {1, 1},
       "0.707106781187",
       "1.0",
       "1.0",
       "1.0",
       "0.5"},
      {DType::kF16, {1, 2}, f, {1, 2}, "1.0", "0.0", "0.0", "0.0", "1.0"},
  };
  for (const Row& row : rows) {
    const MsprobeMetrics m =
        of(tensor(row.n_dtype, row.n), tensor(row.b_dtype, row.b));
    SCOPED_TRACE(row.cosine);
    EXPECT_EQ(m.cosine.text, row.cosine);
    EXPECT_EQ(m.euc_dist.text, row.euc);
    EXPECT_EQ(m.max_abs.text, row.max_abs);
    EXPECT_EQ(m.max_rel.text, row.max_rel);
    EXPECT_EQ(m.one_thousandth.text, row.thousandth);
  }
}

TEST(MsprobeMetrics, BigIntegersAgreeInFp64) {
  Tensor n = Tensor::zeros(DType::kI64, {2}),
         b = Tensor::zeros(DType::kI64, {2});
  const std::uint64_t big = std::uint64_t{1} << 60;
  store_code(DType::kI64, big + 1, n.mutable_data(), 0);
  store_code(DType::kI64, big, b.mutable_data(), 0);
  store_code(DType::kI64, 2, n.mutable_data(), 1);
  store_code(DType::kI64, 2, b.mutable_data(), 1);
  const MsprobeMetrics m = of(n, b);
  EXPECT_EQ(m.cosine.text, "1.0");
  EXPECT_EQ(m.max_abs.text, "0.0");
}

TEST(MsprobeMetrics, ImaginaryPartIsDropped) {
  const MsprobeMetrics m = of(tensor(DType::kC64, {2}, {1, 1, 2, 0}),
                              tensor(DType::kC64, {2}, {1, 0, 2, 0}));
  EXPECT_EQ(m.cosine.text, "1.0");
  EXPECT_EQ(m.euc_dist.text, "0.0");
}

// A golden zero moves both sides by fp32's epsilon: 1e-3 / 1.19e-7.
TEST(MsprobeMetrics, GoldenZeroIsShiftedByEpsilon) {
  const MsprobeMetrics m =
      of(tensor(DType::kF32, {1e-3, 1}), tensor(DType::kF32, {0, 1}));
  EXPECT_NEAR(*m.max_rel.value, 8388.6, 0.1);
  EXPECT_EQ(m.one_thousandth.text, "0.5");
}

TEST(MsprobeMetrics, ZeroRankEmptyAndShapes) {
  const MsprobeMetrics scalar =
      of(tensor(DType::kF32, Shape{}, {1}), tensor(DType::kF32, Shape{}, {2}));
  EXPECT_EQ(scalar.cosine.text, "unsupported");
  EXPECT_EQ(scalar.max_abs.text, "1.0");
  EXPECT_EQ(scalar.max_rel.text, "0.5");
  EXPECT_FALSE(scalar.message.empty());
  const Tensor empty = Tensor::zeros(DType::kF32, {0});
  EXPECT_EQ(of(empty, empty).max_abs.text, "unsupported");
  EXPECT_EQ(of(tensor(DType::kF32, {2, 3}, Values(6)),
               tensor(DType::kF32, {3, 2}, Values(6)))
                .cosine.text,
            "shape unmatched");
  // Axes of one are dropped first.
  EXPECT_EQ(of(tensor(DType::kF32, {3, 1}, {1, 2, 3}),
               tensor(DType::kF32, {1, 3}, {1, 2, 3}))
                .cosine.text,
            "1.0");
}

TEST(MsprobeMetrics, FiguresAtHandGiveTheSameCells) {
  const Tensor b = tensor(DType::kF32, test::normal(1000));
  Values noisy = test::normal(1000);
  for (std::size_t i = 0; i < noisy.size(); i += 3) noisy[i] *= 1.01;
  const Tensor n = tensor(DType::kF32, noisy);
  ErrorStats stats = compute_stats(b.view, n.view);
  compute_detail(b.view, n.view, {}, stats);
  const MsprobeMetrics exact = of(n, b), quick = msprobe_metrics(stats, false);
  EXPECT_EQ(quick.cosine.text, exact.cosine.text);
  EXPECT_NEAR(*quick.euc_dist.value, *exact.euc_dist.value, 1e-9);
  EXPECT_NEAR(*quick.max_rel.value, *exact.max_rel.value, 1e-6);
  EXPECT_NEAR(*quick.one_thousandth.value, *exact.one_thousandth.value, 1e-12);
}

TEST(MsprobeResult, RulesOfTheResultColumn) {
  MsprobeMetrics output;
  output.cosine = {"0.5", 0.5};
  output.one_thousandth = {"0.05", 0.05};
  MsprobeInputs inputs;
  EXPECT_EQ(msprobe_result(output, inputs, false), MsprobeResult::kPass);
  inputs.min_one_thousandth = 0.95;
  EXPECT_EQ(msprobe_result(output, inputs, false), MsprobeResult::kError);
  output.one_thousandth = {"0.2", 0.2};
  inputs.min_cosine = 0.99;
  EXPECT_EQ(msprobe_result(output, inputs, false), MsprobeResult::kWarning);
  EXPECT_EQ(msprobe_result(output, inputs, true), MsprobeResult::kError);
}

}  // namespace
}  // namespace assay
