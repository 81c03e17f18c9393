// The rules of two devices, by ratios worked by hand; all of msprobe's own
// verdicts are in tests/python/test_precheck_compare.py.
#include <gtest/gtest.h>

#include <cmath>

#include "assay/precheck/ratio/rules.h"
#include "ratio_rows.h"

namespace assay::precheck {
namespace {

const Reason& reason_of(const Judgement& judgement, const char* criterion) {
  for (const Reason& reason : judgement.reasons)
    if (reason.criterion == criterion) return reason;
  ADD_FAILURE() << "no reason " << criterion;
  static const Reason kNone;
  return kNone;
}

Verdict verdict_of(const Detail& device, const Detail& reference,
                   const RatioOptions& options = {}) {
  return judge_ratio(device, reference, options).judgement.verdict;
}

TEST(Ratio, LimitsAreThoseOfTheLevel) {
  struct Case {
    std::optional<double> Detail::*figure;
    double l0, l1, l2;
  };
  for (const Case& c : {Case{&Detail::small_value_error_ratio, 2, 2, 2},
                        {&Detail::rmse, 2, 1.5, 1.2},
                        {&Detail::max_rel, 10, 5, 2},
                        {&Detail::mean_rel, 2, 1.5, 1.2}}) {
    for (const auto& [level, limit] : {std::pair{RatioLevel::kL0, c.l0},
                                       {RatioLevel::kL1, c.l1},
                                       {RatioLevel::kL2, c.l2}}) {
      RatioOptions options;
      options.level = level;
      const Detail reference = benchmark_row(0.25);
      Detail device = reference;
      device.*c.figure = 0.25 * limit;
      EXPECT_EQ(verdict_of(device, reference, options), Verdict::kMatch);
      device.*c.figure = 0.25 * limit + 1e-9;
      EXPECT_EQ(verdict_of(device, reference, options), Verdict::kMismatch);
    }
  }
}

TEST(Ratio, LevelsAreThoseOfTheApi) {
  EXPECT_EQ(ratio_level("add"), RatioLevel::kL0);
  EXPECT_EQ(ratio_level("embedding"), RatioLevel::kL1);
  EXPECT_EQ(ratio_level("matmul"), RatioLevel::kL2);
  EXPECT_EQ(ratio_level("linalg.matmul"), RatioLevel::kL0);
  // RMSE 1.6 times the reference's: fine for add, not for matmul.
  const std::string dtype = "torch.bfloat16";
  Detail device = benchmark_row(0.25, dtype);
  device.rmse = 0.4;
  EXPECT_EQ(verdict_of(device, benchmark_row(0.25, dtype)), Verdict::kMatch);
  device = benchmark_row(0.25, dtype, "Torch.matmul");
  device.rmse = 0.4;
  const RatioRow row =
      judge_ratio(device, benchmark_row(0.25, dtype, "Torch.matmul"), {});
  EXPECT_EQ(row.judgement.verdict, Verdict::kMismatch);
  EXPECT_EQ(row.judgement.reasons[0].criterion, "rmse");
  EXPECT_DOUBLE_EQ(row.judgement.reasons[0].figure, 1.6);
  EXPECT_EQ(row.judgement.reasons[0].bound, 1.2);
  EXPECT_FALSE(row.judgement.reasons[0].note);
  EXPECT_TRUE(reason_of(row.judgement, "max_rel").note);
}

// A reference without error: the device has 2 floors of the dtype to itself.
TEST(Ratio, TheDenominatorHasAFloor) {
  for (const auto& [dtype, floor] : {std::pair{"torch.float16", 0x1p-11},
                                     {"torch.bfloat16", 0x1p-8},
                                     {"torch.float32", 0x1p-14}}) {
    EXPECT_EQ(
        verdict_of(benchmark_row(2 * floor, dtype), benchmark_row(0, dtype)),
        Verdict::kMatch);
    const RatioRow row = judge_ratio(benchmark_row(2.5 * floor, dtype),
                                     benchmark_row(0, dtype), {});
    EXPECT_EQ(row.judgement.verdict, Verdict::kMismatch);
    EXPECT_EQ(row.rmse.value, 2.5);
    EXPECT_NE(row.judgement.reasons[0].text.find("the floor"),
              std::string::npos);
  }
}

TEST(Ratio, ErrorBalanceIsReportedOnly) {
  Detail device = benchmark_row(0.25);
  device.error_balance = 1;
  const RatioRow row = judge_ratio(device, benchmark_row(0.25), {});
  EXPECT_EQ(row.judgement.verdict, Verdict::kMatch);
  EXPECT_EQ(row.balance.verdict, Verdict::kMismatch);
  const Reason& reason = reason_of(row.judgement, "error_balance");
  EXPECT_TRUE(reason.note);
  EXPECT_EQ(reason.figure, 4);
}

TEST(Ratio, WhatIsNoNumberIsNoMatch) {
  const Detail good = benchmark_row(0.25);
  for (const double odd : {NAN, INFINITY, -INFINITY}) {
    Detail bad = good;
    bad.rmse = odd;
    EXPECT_EQ(verdict_of(bad, good), Verdict::kMismatch);
    EXPECT_EQ(verdict_of(good, bad), Verdict::kMismatch);
    // Alike on both sides, msprobe passes it.
    const RatioRow both = judge_ratio(bad, bad, {});
    EXPECT_EQ(both.judgement.verdict, Verdict::kIncomplete);
    EXPECT_NE(reason_of(both.judgement, "msprobe").text.find("passes"),
              std::string::npos);
  }
  Detail nan = good, inf = good;
  nan.rmse = NAN;
  inf.rmse = INFINITY;
  EXPECT_EQ(verdict_of(nan, inf), Verdict::kMismatch);
  // A ratio that leaves the doubles.
  Detail huge = good;
  huge.rmse = 1.7e308;
  EXPECT_EQ(verdict_of(huge, benchmark_row(0)), Verdict::kMismatch);
}

TEST(Ratio, WhatIsBlankIsNoMatch) {
  const Detail good = benchmark_row(0.25);
  for (const auto figure : {&Detail::small_value_error_ratio, &Detail::rmse,
                            &Detail::max_rel, &Detail::mean_rel}) {
    Detail blank = good;
    blank.*figure = std::nullopt;
    EXPECT_EQ(verdict_of(blank, good), Verdict::kIncomplete);
    EXPECT_EQ(verdict_of(good, blank), Verdict::kIncomplete);
    EXPECT_EQ(verdict_of(blank, blank), Verdict::kIncomplete);
  }
  const Detail none = row_of(good.name, "torch.float32");
  EXPECT_EQ(verdict_of(none, good), Verdict::kIncomplete);
  EXPECT_EQ(verdict_of(good, none), Verdict::kIncomplete);
  Detail failed = none;
  failed.status = "error";
  EXPECT_EQ(verdict_of(failed, good), Verdict::kMismatch);
}

TEST(Ratio, ShapesAndDtypesHaveToBeThoseOfTheReference) {
  const Detail good = benchmark_row(0.25);
  Detail other = good;
  other.shape = "(16, 4)";
  EXPECT_EQ(verdict_of(good, other), Verdict::kMismatch);
  other = good;
  other.device_dtype = "torch.float16";
  EXPECT_EQ(verdict_of(good, other), Verdict::kMismatch);
  for (const char* shape : {"(0,)", "(0, 4)", "(4, 0)", "(10, 0, 2)"}) {
    Detail empty = row_of(good.name, "torch.float32");
    empty.shape = shape;
    EXPECT_EQ(verdict_of(empty, empty), Verdict::kEmpty) << shape;
  }
  for (const char* shape : {"(10, 20)", "(100,)", "()", "(4, 10)"}) {
    Detail full = row_of(good.name, "torch.float32");
    full.shape = shape;
    EXPECT_EQ(verdict_of(full, full), Verdict::kIncomplete) << shape;
  }
}

TEST(Ratio, SomeDtypesHaveNoRule) {
  for (const char* dtype :
       {"torch.float64", "torch.complex64", "torch.complex128", ""})
    EXPECT_EQ(verdict_of(benchmark_row(0, dtype), benchmark_row(0, dtype)),
              Verdict::kIncomplete)
        << dtype;
}

TEST(Ratio, IntegersAreEqual) {
  Detail device = row_of("Torch.add.0.forward.output.0", "torch.int64");
  Detail reference = device;
  EXPECT_EQ(verdict_of(device, reference), Verdict::kIncomplete);
  device.binary_error_rate = 0;
  reference.binary_error_rate = 0.5;
  EXPECT_EQ(verdict_of(device, reference), Verdict::kMatch);
  EXPECT_EQ(verdict_of(reference, device), Verdict::kMismatch);
  device.binary_error_rate = NAN;
  EXPECT_EQ(verdict_of(device, reference), Verdict::kMismatch);
}

TEST(Ratio, OutputsOfFloat8InputsHaveNoErrorsAtAll) {
  Detail device = row_of("Torch.add.0.forward.output.0", "torch.bfloat16");
  device.inf_nan_error_ratio = device.rel_error_ratio = device.abs_error_ratio =
      0;
  EXPECT_EQ(verdict_of(device, device), Verdict::kMatch);
  for (const auto rate : {&Detail::inf_nan_error_ratio,
                          &Detail::rel_error_ratio, &Detail::abs_error_ratio}) {
    Detail bad = device;
    bad.*rate = 1e-9;
    EXPECT_EQ(verdict_of(bad, device), Verdict::kMismatch);
  }
}

TEST(Ratio, Float8ByItsShareOfUlps) {
  Detail device = row_of("Torch.mm.0.forward.output.0", "torch.float8_e5m2");
  EXPECT_EQ(verdict_of(device, device), Verdict::kIncomplete);
  device.ulp_over_threshold = 0.00099;
  EXPECT_EQ(verdict_of(device, device), Verdict::kMatch);
  device.ulp_over_threshold = 0.001;
  EXPECT_EQ(verdict_of(device, device), Verdict::kMismatch);
}

// The lists of APIs, which msprobe 26 reaches for no float any more.
class ByApi : public testing::Test {
 protected:
  ByApi() { options_.profile = &ratio_profile("published"); }
  Verdict verdict(const Detail& device, const Detail& reference) {
    return verdict_of(device, reference, options_);
  }
  RatioOptions options_;
};

TEST_F(ByApi, ChoosesTheRule) {
  const RatioProfile& lists = *options_.profile;
  const auto rule = [&](const char* api, const char* dtype = "torch.float32") {
    return ratio_rule(api, dtype, true, lists);
  };
  EXPECT_EQ(rule("mul_"), RatioRule::kAbsolute);
  EXPECT_EQ(rule("transpose"), RatioRule::kBinary);
  EXPECT_EQ(rule("matmul"), RatioRule::kUlp);
  EXPECT_EQ(rule("conv2d"), RatioRule::kThousandth);
  EXPECT_EQ(rule("test_api"), RatioRule::kAccumulative);
  EXPECT_EQ(rule("softmax"), RatioRule::kBenchmark);
  EXPECT_EQ(rule("softmax", "torch.int32"), RatioRule::kBinary);
  EXPECT_EQ(rule("softmax", "torch.float8_e4m3fn"), RatioRule::kUlp);
  const RatioProfile& code = msprobe26_profile();
  EXPECT_EQ(ratio_rule("matmul", "torch.float32", false, code),
            RatioRule::kBenchmark);
  EXPECT_EQ(ratio_rule("matmul", "torch.float32", true, code),
            RatioRule::kAbsolute);
}

TEST_F(ByApi, UlpsOfHalves) {
  Detail device = row_of("Torch.matmul.0.forward.output.0", "torch.float16");
  device.mean_ulp = 0.5;
  device.ulp_over_threshold = 0.0009;
  Detail reference = device;
  reference.ulp_over_threshold = 0;
  EXPECT_EQ(verdict(device, reference), Verdict::kMatch);  // below 0.001
  device.ulp_over_threshold = 0.002;
  reference.ulp_over_threshold = 0.0021;
  EXPECT_EQ(verdict(device, reference), Verdict::kMatch);  // fewer
  reference.ulp_over_threshold = 0.0019;
  EXPECT_EQ(verdict(device, reference), Verdict::kMismatch);
  reference.ulp_over_threshold = NAN;
  EXPECT_EQ(verdict(device, reference), Verdict::kMismatch);
}

TEST_F(ByApi, UlpsOfFp32) {
  Detail device = row_of("Torch.matmul.0.forward.output.0", "torch.float32");
  device.mean_ulp = 63;
  device.ulp_over_threshold = 0.5;
  Detail reference = device;
  reference.ulp_over_threshold = 0.1;
  EXPECT_EQ(verdict(device, reference), Verdict::kMatch);  // mean below 64
  device.mean_ulp = 64;
  EXPECT_EQ(verdict(device, reference), Verdict::kMismatch);
  device.ulp_over_threshold = 0.0499;
  EXPECT_EQ(verdict(device, reference), Verdict::kMatch);
  device.ulp_over_threshold = 0.09;
  EXPECT_EQ(verdict(device, reference), Verdict::kMatch);  // fewer
  device.mean_ulp = reference.mean_ulp = NAN;
  EXPECT_EQ(verdict(device, reference), Verdict::kIncomplete);
  device.mean_ulp = std::nullopt;
  EXPECT_NE(verdict(device, reference), Verdict::kMatch);
}

TEST_F(ByApi, ThousandthAndAccumulative) {
  Detail device = row_of("Torch.conv2d.0.forward.output.0", "torch.float16");
  device.thousandth = 0.999;
  EXPECT_EQ(verdict(device, device), Verdict::kMatch);
  device.thousandth = 0.9989;
  EXPECT_EQ(verdict(device, device), Verdict::kMismatch);
  device.thousandth = NAN;
  EXPECT_EQ(verdict(device, device), Verdict::kMismatch);

  device = row_of("Torch.test_api.0.forward.output.0", "torch.float32");
  device.inf_nan_error_ratio = device.rel_error_ratio = device.abs_error_ratio =
      0;
  EXPECT_EQ(verdict(device, device), Verdict::kIncomplete);
  device.error_balance = 0x1p-14;
  EXPECT_EQ(verdict(device, device), Verdict::kMatch);
  device.error_balance = 0x1p-13;
  EXPECT_EQ(verdict(device, device), Verdict::kMismatch);
}

}  // namespace
}  // namespace assay::precheck
