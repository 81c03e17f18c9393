#include "assay/precheck/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "assay/base/error.h"
#include "assay/metrics/tensor_summary.h"
#include "assay/numerics/rounding.h"
#include "assay/precheck/spread.h"

namespace assay::precheck {
namespace {

Record record_of(DType dtype, Shape shape, double min, double max, double mean,
                 double norm) {
  Record record;
  record.facts.dtype = dtype;
  record.facts.shape = std::move(shape);
  record.stats = {max, min, mean, norm};
  return record;
}

struct Case {
  const char* name;
  DType dtype;
  double min, max, mean, deviation;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class GenerateTest : public ::testing::TestWithParam<Case> {};

TEST_P(GenerateTest, MeetsTheStatistics) {
  const Case& c = GetParam();
  constexpr std::int64_t kCount = 20000;
  const double norm =
      std::sqrt(kCount * (c.mean * c.mean + c.deviation * c.deviation));
  const Tensor tensor =
      generate(record_of(c.dtype, {100, 200}, c.min, c.max, c.mean, norm), 7);
  const TensorSummary found = summarise(tensor.view);
  EXPECT_EQ(found.min, round_to(c.dtype, c.min));
  EXPECT_EQ(found.max, round_to(c.dtype, c.max));
  // Four standard errors of the mean, and the dtype's rounding.
  const double u = unit_roundoff(c.dtype);
  EXPECT_NEAR(found.mean, c.mean,
              4 * c.deviation / std::sqrt(kCount) + 2 * u * std::fabs(c.mean) +
                  0.02 * c.deviation);
  const double deviation = std::sqrt(std::max(
      0.0, found.norm * found.norm / kCount - found.mean * found.mean));
  EXPECT_NEAR(deviation, c.deviation, 0.06 * c.deviation);
  const Tensor again =
      generate(record_of(c.dtype, {100, 200}, c.min, c.max, c.mean, norm), 7);
  EXPECT_EQ(std::memcmp(tensor.view.data, again.view.data,
                        tensor.view.bytes().size()),
            0);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, GenerateTest,
    ::testing::Values(Case{"Normal", DType::kF32, -4, 4, 0, 1},
                      Case{"Uniform", DType::kF32, -0.125, 0.125, 0, 0.0721688},
                      Case{"FewOutliers", DType::kF32, -1, 40, 0.01, 0.5},
                      Case{"TwoValues", DType::kF32, 0, 1, 0.3, 0.45},
                      Case{"Skewed", DType::kF64, 0, 10, 1, 1.2},
                      Case{"Half", DType::kBF16, -2, 3, 0.1, 0.7},
                      Case{"Gradients", DType::kF32, -1e-6, 2e-6, 3e-9, 1e-7},
                      Case{"Tokens", DType::kI64, 0, 50256, 25128, 14508}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Generate, PutsCountsBack) {
  Record record = record_of(DType::kF32, {10, 10}, -1, 2, 0.25, 5);
  record.value = R"({"nan":3,"inf":2,"-inf":4})";
  record.zeros = 11;
  const TensorSummary found = summarise(generate(record, 1).view);
  EXPECT_EQ(found.nan, 3);
  EXPECT_EQ(found.positive_inf, 2);
  EXPECT_EQ(found.negative_inf, 4);
  EXPECT_EQ(found.zeros, 11);
  EXPECT_EQ(found.min, -1);
  EXPECT_EQ(found.max, 2);
}

TEST(Generate, ExtremesThatAreNotFiniteComeBackOnce) {
  // msprobe's statistics: the extremes themselves are NaN or infinite.
  const double nan = std::nan("");
  const Record nans = record_of(DType::kF32, {50}, nan, nan, nan, nan);
  EXPECT_EQ(summarise(generate(nans, 1).view).nan, 1);
  const Record mask =
      record_of(DType::kF32, {50}, -INFINITY, 0, -INFINITY, INFINITY);
  EXPECT_EQ(summarise(generate(mask, 1).view).negative_inf, 1);
}

TEST(Generate, AMaskOfMinusInfinityIsOne) {
  Record record;
  record.facts = {DType::kBF16, "bfloat16", {4, 4}, std::nullopt};
  record.value = R"({"-inf":16})";
  record.zeros = 0;
  EXPECT_EQ(summarise(generate(record, 1).view).negative_inf, 16);
}

TEST(Generate, BoolsHaveTheRecordedShare) {
  Record record = record_of(DType::kBool, {1000}, 0, 1, 0.25, 0);
  record.zeros = 750;
  EXPECT_EQ(summarise(generate(record, 1).view).zeros, 750);
  record = record_of(DType::kBool, {8}, 1, 1, 1, 0);
  EXPECT_EQ(summarise(generate(record, 1).view).zeros, 0);
}

TEST(Generate, PositionsAreAPermutation) {
  // arange(6): mean 2.5, sum of squares 55.
  const Record record = record_of(DType::kI64, {6}, 0, 5, 2.5, std::sqrt(55.0));
  const Tensor tensor = generate(record, 3);
  std::set<std::int64_t> found(tensor.data<std::int64_t>(),
                               tensor.data<std::int64_t>() + 6);
  EXPECT_EQ(found.size(), 6u);
  EXPECT_EQ(*found.begin(), 0);
  EXPECT_EQ(*found.rbegin(), 5);
}

TEST(Generate, IntegersStayInRange) {
  const Record record = record_of(DType::kI32, {1000}, 3, 5, 4, 127);
  const Tensor tensor = generate(record, 3);
  for (std::int64_t i = 0; i < 1000; ++i) {
    EXPECT_GE(tensor.data<std::int32_t>()[i], 3);
    EXPECT_LE(tensor.data<std::int32_t>()[i], 5);
  }
}

TEST(Generate, IntegersOfNoKnownRangeAreRefused) {
  Record record;
  record.facts = {DType::kI64, "int64", {4}, std::nullopt};
  EXPECT_THROW(generate(record, 1), Error);
}

TEST(Generate, OneElementIsItsExtreme) {
  const Tensor tensor =
      generate(record_of(DType::kF32, {}, 4.83, 4.83, 4.83, 4.83), 1);
  EXPECT_EQ(*tensor.data<float>(), 4.83F);
}

TEST(Spread, StaysWithinItsBoundsWhateverItIsAskedFor) {
  for (const double mean : {-5.0, 0.0, 0.5, 1.0, 9.0})
    for (const double square : {0.0, 0.3, 1.0, 100.0}) {
      const Spread spread(0, 1, {mean, square});
      for (const double z : {-40.0, -3.0, 0.0, 2.0, 40.0}) {
        EXPECT_GE(spread.at(z), 0);
        EXPECT_LE(spread.at(z), 1);
      }
    }
  EXPECT_EQ(Spread(2, 2, {}).at(3), 2);
}

}  // namespace
}  // namespace assay::precheck
