// The reports of compared training runs.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "assay/report/runs/run_panel.h"
#include "assay/report/runs/runs_html.h"
#include "assay/report/runs/runs_json.h"
#include "assay/report/runs/runs_text.h"
#include "assay/report/runs/sparkline.h"
#include "tests/report/files.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kHostile[] = "</script><b>\x1b[31m\u2028";

// A loss that falls from 6 by halves of what is above 2, `shift` higher from
// step 11 on, and a throughput.
RunLog run_of(const std::string& path, double seed, double shift, double speed,
              int steps = 20) {
  RunLog log;
  log.path = path;
  log.facts = {{"device", path}};
  for (int i = 1; i <= steps; ++i) {
    RunStep s;
    s.step = i;
    s.set(static_cast<std::size_t>(Figure::kLoss),
          2 + 4 * std::exp2(1 - i) + seed + (i > 10 ? shift : 0));
    s.set(static_cast<std::size_t>(Figure::kTokensPerSecond), speed);
    s.set(static_cast<std::size_t>(Figure::kPeakRss), 3e9);
    log.steps.push_back(s);
  }
  return log;
}

RunsComparison sample(RunsOptions options = {}) {
  auto c = compare_runs(
      {run_of("gpu", 0, 0, 1000), run_of("npu", 0, 0.5, 800)},
      {run_of("gpu1", 0.125, 0, 1000), run_of("gpu2", -0.125, 0, 1000)},
      options);
  c.command = "assay compare-runs gpu npu --seeds gpu1 gpu2";
  return c;
}

TEST(RunsText, SaysWhereARunLeavesTheBand) {
  EXPECT_EQ(render_runs_comparison(sample()),
            R"(reference   gpu   20 steps, 1 to 20
target      npu   20 steps, 1 to 20
seed        gpu1   20 steps, 1 to 20
seed        gpu2   20 steps, 1 to 20
band        of 3 runs: their extremes, and mean ± 2.31 sd, with sd over 11 steps
agrees      with as many steps outside as chance puts there, and not the last 3

mismatch  npu   loss leaves the band for good at step 11: 2.504 is above 2.293, by 0.2113 (1.69 sd)
  loss differs from step 11 on, by 0.5; most at step 11, by 0.5

verdict   figure             reference     target          last  target's    mean  outside
mismatch  loss               █▃▁▁▁▁▁▁▁▁▁▁  █▃▁▁▁▁▂▂▂▂▂▂       2       2.5  1.104x    10/20
shown     tokens_per_second  ████████████  ▁▁▁▁▁▁▁▁▁▁▁▁    1000       800    0.8x
shown     peak_rss_bytes     ▁▁▁▁▁▁▁▁▁▁▁▁  ▁▁▁▁▁▁▁▁▁▁▁▁  3.0 GB    3.0 GB      1x
)");
}

TEST(RunsText, OneLineARunWhenQuietAndWhatIsHostileIsEscaped) {
  auto c = compare_runs(
      {run_of("a", 0, 0, 1), run_of(kHostile, 0, 0, 1), run_of("c", 1, 0, 1)},
      {}, {});
  RunsTextOptions options;
  options.quiet = true;
  EXPECT_EQ(render_runs_comparison(c, options),
            "match  </script><b>\\x1b[31m\\u2028   loss: the same value at all "
            "20 steps\n"
            "incomplete  c   loss: nothing proven: differs from step 1 on, and "
            "1 reference run spans no band (3 do)\n");
  options.quiet = false;
  EXPECT_THAT(render_runs_comparison(c, options), Not(HasSubstr("\x1b")));
}

TEST(RunsText, SaysThatNothingIsJudged) {
  RunsOptions options;
  options.judged = {Figure::kGradNorm};
  EXPECT_THAT(render_runs_comparison(sample(options)),
              HasSubstr("incomplete  npu   no figure that is judged"));
}

TEST(Sparkline, DrawsMeansOfEqualParts) {
  EXPECT_EQ(sparkline({0, 0, 4, 4, 8, 8}, 0, 8, 3), "▁▅█");
  EXPECT_EQ(sparkline({1, 2}, 1, 2, 16), "▁█");
  EXPECT_EQ(sparkline({1, NAN, 3}, 1, 3, 3), "▁×█");
  EXPECT_EQ(sparkline({5, 5}, 5, 5, 2), "▁▁");
  EXPECT_EQ(sparkline({}, 0, 1, 8), "");
}

TEST(RunsJson, HoldsTheVerdictTheRuleAndThePlaces) {
  const auto j = nlohmann::json::parse(runs_json(sample()));
  EXPECT_EQ(j["verdict"], "mismatch");
  EXPECT_EQ(j["band"]["runs"], 3);
  EXPECT_NEAR(j["band"]["deviations"].get<double>(), 2.3094, 1e-4);
  EXPECT_EQ(j["seeds"][1]["path"], "gpu2");
  EXPECT_EQ(j["runs"][1]["facts"]["device"], "npu");
  const auto& loss = j["pairs"][0]["curves"][0];
  EXPECT_EQ(loss["figure"], "loss");
  EXPECT_EQ(loss["leaves_for_good"]["step"], 11);
  EXPECT_NEAR(loss["leaves_for_good"]["excess"].get<double>(),
              0.5 - 0.125 * 2.309401, 1e-6);
  EXPECT_EQ(loss["first_difference"]["step"], 11);
  EXPECT_EQ(loss["outside"], 10);
  EXPECT_FALSE(j["pairs"][0]["curves"][1].contains("verdict"));
  EXPECT_FALSE(j.contains("panels"));
}

TEST(RunsJson, KeepsItsSyntaxWhateverTheValuesAre) {
  RunLog log = run_of(kHostile, 0, 0, INFINITY);
  log.steps[3].set(static_cast<std::size_t>(Figure::kLoss), NAN);
  log.facts = {{kHostile, kHostile}};
  const auto c = compare_runs({run_of("a", 0, 0, 1), log}, {}, {});
  const auto j = nlohmann::json::parse(runs_page_json(c));
  EXPECT_EQ(j["verdict"], "mismatch");
  EXPECT_TRUE(j["panels"][0]["runs"][1][3].is_null());
  EXPECT_EQ(j["pairs"][0]["curves"][0]["first_difference"]["target"], "nan");
}

TEST(RunPanel, HoldsTheStepsOfEveryRunAndTheBand) {
  const auto c =
      compare_runs({run_of("a", 0, 0, 1, 10), run_of("b", 0.5, 0, 1, 12)},
                   {run_of("s1", 0.125, 0, 1), run_of("s2", -0.125, 0, 1)}, {});
  const RunPanel panel = run_panel(c, Figure::kLoss, 1000);
  ASSERT_EQ(panel.steps.size(), 12u);
  EXPECT_TRUE(std::isnan(panel.runs[0][11]));
  EXPECT_TRUE(std::isnan(panel.low[11]));
  EXPECT_EQ(panel.runs[1][9] - panel.runs[0][9], 0.5);
  EXPECT_EQ(panel.differences[0][9], 0.5);
  EXPECT_NEAR(panel.high[9] - panel.runs[0][9], 0.125 * 2.309401, 1e-6);
}

TEST(RunPanel, KeepsPeaksWhereItDrawsFewSteps) {
  RunLog a = run_of("a", 0, 0, 1, 10000), b = a;
  b.path = "b";
  b.steps[5432].set(static_cast<std::size_t>(Figure::kLoss), 99);
  const auto c = compare_runs({a, b}, {}, {});
  const RunPanel panel = run_panel(c, Figure::kLoss, 100);
  EXPECT_EQ(panel.logged, 10000u);
  EXPECT_LE(panel.steps.size(), 102u);
  EXPECT_EQ(panel.steps.front(), 1);
  EXPECT_EQ(panel.steps.back(), 10000);
  const auto at = std::ranges::find(panel.steps, 5433);
  ASSERT_NE(at, panel.steps.end());
  EXPECT_EQ(panel.runs[1][static_cast<std::size_t>(at - panel.steps.begin())],
            99);
}

TEST(RunsHtml, IsOnePageWhoseDataEndNoScript) {
  auto c = sample();
  c.runs[1].path = kHostile;
  const std::string page =
      written([&](const auto& path) { write_runs_html(c, path); }, "runs.html");
  EXPECT_THAT(page, HasSubstr("\\u003c/script>\\u003cb>"));
  EXPECT_THAT(page, HasSubstr("<title>Assay training runs</title>"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

}  // namespace
}  // namespace assay
