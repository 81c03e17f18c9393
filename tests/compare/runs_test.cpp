#include <gmock/gmock.h>

#include <cmath>

#include "assay/compare/runs/compare_runs.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Losses from step 1 on.
RunLog log_of(const std::string& path, const std::vector<double>& losses,
              std::int64_t first = 1) {
  RunLog log;
  log.path = path;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    RunStep step;
    step.step = first + static_cast<std::int64_t>(i);
    step.set(static_cast<std::size_t>(Figure::kLoss), losses[i]);
    log.steps.push_back(step);
  }
  return log;
}

// The same spread at every step: 9, 10, 11 have mean 10 and deviation 1.
const std::vector<double> kTen(20, 10.0), kNine(20, 9.0), kEleven(20, 11.0);

RunsComparison against_ten(const std::vector<double>& losses,
                           RunsOptions options = {}) {
  return compare_runs({log_of("a", kTen), log_of("b", losses)},
                      {log_of("s1", kNine), log_of("s2", kEleven)}, options);
}

const RunCurve& loss_of(const RunsComparison& c) {
  return c.pairs.at(0).curves.at(0);
}

std::vector<double> ten_but(std::size_t from, std::size_t to, double value) {
  std::vector<double> losses = kTen;
  for (std::size_t i = from; i < to; ++i) losses[i] = value;
  return losses;
}

TEST(Band, IsThePredictionIntervalOfAFurtherRun) {
  const Band band = band_of({{10}, {9}, {11}}, kBandReach);
  // mean 10, sd sqrt((0 + 1 + 1) / 2) = 1; 2 sqrt(1 + 1/3) = 2.3094.
  EXPECT_DOUBLE_EQ(band.deviation[0], 1);
  EXPECT_NEAR(band.low[0], 10 - 2.309401, 1e-6);
  EXPECT_NEAR(band.high[0], 10 + 2.309401, 1e-6);
  EXPECT_TRUE(band.holds(0, 12.3));
  EXPECT_FALSE(band.holds(0, 12.31));
  EXPECT_NEAR(band.excess(0, 13), 0.690599, 1e-6);
  EXPECT_EQ(band.excess(0, 12), 0);
  EXPECT_EQ(band.excess(0, NAN), INFINITY);
}

TEST(Band, TakesTheSpreadOfTheStepsWithinReachTogether) {
  // Variances of two runs: 0.5 d^2, so 0, 0, 8; the mean of all is 8/3.
  const Band band = band_of({{1, 1, 1}, {1, 1, 5}}, 2);
  EXPECT_DOUBLE_EQ(band.deviation[0], std::sqrt(8.0 / 3));
  EXPECT_DOUBLE_EQ(band.deviation[2], std::sqrt(8.0 / 3));
  const Band narrow = band_of({{1, 1, 1}, {1, 1, 5}}, 1);
  EXPECT_EQ(narrow.deviation[0], 0);
  EXPECT_EQ(narrow.deviation[1], std::sqrt(8.0 / 3));
  EXPECT_EQ(narrow.deviation[2], 2);  // of 0 and 8
  EXPECT_EQ(narrow.low[0], 1);
  EXPECT_EQ(narrow.high[0], 1);
}

TEST(Band, ReachesAsFarAsTheRunsThemselves) {
  // Twelve runs at 0 and one at 1: mean 1/13, sd sqrt(1/13) = 0.277, so the
  // interval ends at 0.077 + 2.076 x 0.277 = 0.653, below the run at 1.
  std::vector<std::vector<double>> runs(13, {0.0});
  runs[12] = {1.0};
  const Band band = band_of(runs, kBandReach);
  EXPECT_EQ(band.high[0], 1);
  EXPECT_NEAR(band.low[0], 1.0 / 13 - 2 * std::sqrt(14.0 / 13 / 13), 1e-12);
}

TEST(Band, IsNotThereWhereARunHasNoFiniteValue) {
  const Band band = band_of({{1, 1}, {2, NAN}, {3, 3}}, 5);
  EXPECT_TRUE(band.has(0));
  EXPECT_FALSE(band.has(1));
  EXPECT_EQ(band.deviation[0], 1);  // the other step adds nothing
}

TEST(Band, AllowsWhatChanceDoes) {
  // 4.55 % + 3 sqrt(0.0455 x 0.9545 / n), at least 10 %.
  EXPECT_DOUBLE_EQ(allowed_share(1000, 1), 0.1);
  EXPECT_NEAR(allowed_share(100, 1), 0.108020, 1e-5);
  EXPECT_NEAR(allowed_share(1000, 20), 0.133914, 1e-5);
  EXPECT_NEAR(allowed_share(1, 1), 0.67070, 1e-4);
}

TEST(Smoothed, IsTheMeanOfTheLastValues) {
  EXPECT_THAT(smoothed({1, 2, 6, 10}, 1), ElementsAre(1, 2, 6, 10));
  EXPECT_THAT(smoothed({1, 2, 6, 10}, 3), ElementsAre(1, 1.5, 3, 6));
  const auto around = smoothed({1, INFINITY, 3, 5}, 2);
  EXPECT_EQ(around[0], 1);
  EXPECT_TRUE(std::isnan(around[1]) && std::isnan(around[2]));
  EXPECT_EQ(around[3], 4);
}

TEST(CompareRuns, MatchesInsideTheBandAllTheWay) {
  const auto c = against_ten(ten_but(0, 20, 12));
  EXPECT_EQ(c.verdict, Verdict::kMatch);
  EXPECT_EQ(loss_of(c).reason, "inside the band at all 20 steps");
  EXPECT_EQ(loss_of(c).first_difference->step, 1);
  EXPECT_DOUBLE_EQ(*loss_of(c).mean_ratio, 1.2);
}

TEST(CompareRuns, LeavesForGood) {
  const auto c = against_ten(ten_but(12, 20, 13));
  EXPECT_EQ(c.verdict, Verdict::kMismatch);
  const RunCurve& loss = loss_of(c);
  ASSERT_TRUE(loss.leaves_for_good);
  EXPECT_EQ(loss.leaves_for_good->step, 13);
  EXPECT_NEAR(loss.leaves_for_good->excess, 0.690599, 1e-6);
  EXPECT_EQ(loss.outside, 8);
  EXPECT_EQ(loss.reason,
            "leaves the band for good at step 13: 13 is above 12.31, by "
            "0.6906 (0.691 sd)");
}

// Back for one step of eleven: still gone for good from the first on.
TEST(CompareRuns, NoiseThatCarriesItBackForAStepIsNoReturn) {
  std::vector<double> losses = ten_but(9, 20, 6);
  losses[14] = 10;
  const auto c = against_ten(losses);
  EXPECT_EQ(loss_of(c).leaves_for_good->step, 10);
  EXPECT_THAT(loss_of(c).reason, HasSubstr("6 is below 7.691"));
}

TEST(CompareRuns, ComesBackWithinWhatChanceAllows) {
  // 3 of 20 are 15 %, 18.5 % may be.
  const auto c = against_ten(ten_but(5, 8, 13));
  EXPECT_EQ(c.verdict, Verdict::kMatch);
  EXPECT_THAT(loss_of(c).reason, HasSubstr("3 of 20 steps"));
  EXPECT_FALSE(loss_of(c).leaves_for_good);
  const auto more = against_ten(ten_but(5, 9, 13));
  EXPECT_EQ(more.verdict, Verdict::kMismatch);
  EXPECT_THAT(
      loss_of(more).reason,
      HasSubstr("4 of 20 steps (20.0 %, 19 % may be), first at step 6"));
}

TEST(CompareRuns, NothingIsProvenWithoutABand) {
  const auto c = compare_runs({log_of("a", kTen), log_of("b", kNine)},
                              {log_of("s", kEleven)}, {});
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_THAT(loss_of(c).reason,
              HasSubstr("nothing proven: differs from step 1 on, and 2 "
                        "reference runs span no band (3 do)"));
}

TEST(CompareRuns, EveryBitAlikeNeedsNoBand) {
  const auto c = compare_runs({log_of("a", kTen), log_of("b", kTen)}, {}, {});
  EXPECT_EQ(c.verdict, Verdict::kMatch);
  EXPECT_EQ(loss_of(c).reason, "the same value at all 20 steps");
  std::vector<double> last = kTen;
  last.back() = std::nextafter(10.0, 11.0);
  const auto other =
      compare_runs({log_of("a", kTen), log_of("b", last)}, {}, {});
  EXPECT_EQ(other.verdict, Verdict::kIncomplete);
  EXPECT_EQ(loss_of(other).first_difference->step, 20);
}

// The same seed again would make the band of three out of two.
TEST(CompareRuns, ASeedThatIsTheReferenceAgainDoesNotCount) {
  const auto c = compare_runs(
      {log_of("a", kTen), log_of("b", kNine)},
      {log_of("s1", kTen), log_of("s2", kEleven), log_of("s3", kEleven)}, {});
  EXPECT_EQ(c.seeds.size(), 1u);
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_THAT(c.warnings, ElementsAre(HasSubstr("s1: every loss is that of a"),
                                      HasSubstr("that of s2")));
}

TEST(CompareRuns, StepsOfOneRunAloneAreNotCompared) {
  std::vector<double> shorter(15, 10.0);
  auto c = against_ten(shorter);
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_EQ(loss_of(c).reason,
            "not in the target: 5 steps of the reference");
  RunsOptions options;
  options.to = 15;
  EXPECT_EQ(against_ten(shorter, options).verdict, Verdict::kMatch);
  c = against_ten(std::vector<double>(21, 10.0));
  EXPECT_EQ(loss_of(c).reason, "not in the reference: 1 step of the target");
  c = compare_runs({log_of("a", kTen), log_of("b", kTen, 100)}, {}, {});
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_EQ(loss_of(c).reason, "no step is in both runs");
  options.from = 300;
  options.to = 400;
  c = against_ten(kTen, options);
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_EQ(loss_of(c).reason, "no step of it is asked for");
}

TEST(CompareRuns, EveryTakesTheStepsThatACoarserLogHas) {
  RunLog coarse = log_of("b", kTen);
  std::erase_if(coarse.steps, [](const RunStep& s) { return s.step % 5 != 0; });
  RunsOptions options;
  EXPECT_EQ(compare_runs({log_of("a", kTen), coarse}, {}, options).verdict,
            Verdict::kIncomplete);
  options.every = 5;
  const auto c = compare_runs({log_of("a", kTen), coarse}, {}, options);
  EXPECT_EQ(c.verdict, Verdict::kMatch);
  EXPECT_THAT(loss_of(c).steps, ElementsAre(5, 10, 15, 20));
}

TEST(CompareRuns, NanIsAMismatchWhereTheReferenceIsFinite) {
  for (const double wild : {double(NAN), double(INFINITY)}) {
    const auto c = against_ten(ten_but(4, 5, wild));
    EXPECT_EQ(c.verdict, Verdict::kMismatch);
    EXPECT_THAT(loss_of(c).reason, HasSubstr("at step 5, where the reference"));
    // For that it takes no band.
    EXPECT_EQ(compare_runs(
                  {log_of("a", kTen), log_of("b", ten_but(4, 5, wild))}, {}, {})
                  .verdict,
              Verdict::kMismatch);
  }
}

TEST(CompareRuns, NanOfTheReferenceProvesNothing) {
  auto c = compare_runs({log_of("a", ten_but(4, 5, NAN)), log_of("b", kTen)},
                        {log_of("s1", kNine), log_of("s2", kEleven)}, {});
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_THAT(loss_of(c).reason, HasSubstr("1 step without a band"));
  const std::vector<double> nans(20, NAN);
  c = compare_runs({log_of("a", nans), log_of("b", nans)}, {}, {});
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_EQ(loss_of(c).reason, "no value is finite");
}

TEST(CompareRuns, AFigureThatOneRunLacksIsNotCompared) {
  RunLog with = log_of("a", kTen);
  for (RunStep& s : with.steps)
    s.set(static_cast<std::size_t>(Figure::kGradNorm), 1);
  const auto c = compare_runs({with, log_of("b", kTen)}, {}, {});
  EXPECT_EQ(c.verdict, Verdict::kIncomplete);
  EXPECT_EQ(c.pairs[0].curves[1].reason, "the target did not log it");
  RunsOptions options;
  options.judged = {Figure::kLoss};
  const auto loss = compare_runs({with, log_of("b", kTen)}, {}, options);
  EXPECT_EQ(loss.verdict, Verdict::kMatch);
  EXPECT_FALSE(loss.pairs[0].curves[1].judged);
  RunsOptions none;
  none.judged = {Figure::kParamNorm};
  EXPECT_EQ(compare_runs({with, with}, {}, none).verdict, Verdict::kIncomplete);
}

TEST(CompareRuns, TheWorstRunDecides) {
  const auto c =
      compare_runs({log_of("a", kTen), log_of("b", kTen), log_of("c", {1}),
                    log_of("d", ten_but(0, 20, 20))},
                   {log_of("s1", kNine), log_of("s2", kEleven)}, {});
  EXPECT_EQ(c.pairs[0].verdict, Verdict::kMatch);
  EXPECT_EQ(c.pairs[1].verdict, Verdict::kMismatch);  // 1 of 1 outside
  EXPECT_EQ(c.pairs[2].verdict, Verdict::kMismatch);
  EXPECT_EQ(c.verdict, Verdict::kMismatch);
}

TEST(CompareRuns, GrowthIsTheStepsOfADoubling) {
  // 1, 2, 4, ... 2^9 from step 5 on: half of the largest after 8 doublings.
  std::vector<double> losses = kTen;
  for (std::size_t i = 0; i < 10; ++i)
    losses[4 + i] = 10 + std::ldexp(1.0, static_cast<int>(i));
  auto c = compare_runs({log_of("a", kTen), log_of("b", losses)}, {}, {});
  EXPECT_EQ(loss_of(c).first_difference->step, 5);
  EXPECT_EQ(loss_of(c).largest_difference->step, 14);
  EXPECT_DOUBLE_EQ(*loss_of(c).doubling_steps, 1);
  c = compare_runs({log_of("a", kTen), log_of("b", ten_but(3, 20, 12))}, {},
                   {});
  EXPECT_EQ(*loss_of(c).doubling_steps, 0);  // at once
}

// One step in twenty outside by chance is not 1 of 1.
TEST(CompareRuns, MeansOfStepsAreHeldAgainstMeans) {
  RunsOptions options;
  options.smooth = 4;
  std::vector<double> spike = kTen;
  spike[10] = 18;  // a mean of 12
  const auto c = against_ten(spike, options);
  EXPECT_EQ(c.verdict, Verdict::kMatch);
  EXPECT_EQ(loss_of(c).target[10], 12);
  EXPECT_EQ(loss_of(c).first_difference->target, 18);  // as logged
}

}  // namespace
}  // namespace assay
