// The reports of a run: terminal, JUnit, page and API coverage.
#include <gmock/gmock.h>

#include <chrono>

#include "assay/base/error.h"
#include "assay/conform/report/run_html.h"
#include "assay/conform/report/run_json.h"
#include "assay/conform/report/run_junit.h"
#include "assay/conform/report/run_terminal.h"
#include "assay/conform/report/run_view.h"
#include "assay/report/display.h"
#include "tests/conform/run_sample.h"
#include "tests/report/files.h"

namespace assay::conform {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string golden_text(const std::string& name) {
  return read_text(std::string(ASSAY_TEST_DATA) + "/conform/" + name);
}

std::string junit(const RunResult& run) {
  return written([&](const auto& path) { write_run_junit(run, path); },
                 "run.xml");
}

std::string page(const RunResult& run) {
  return written([&](const auto& path) { write_run_html(run, nullptr, path); },
                 "run.html");
}

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != text.npos; ++at)
    ++found;
  return found;
}

TEST(RunTerminal, LooksLikeTheExample) {
  const RunResult run = run_sample();
  const ApiCoverage api = api_coverage(run, scanned_sample());
  EXPECT_EQ(render_run(run, &api), golden_text("run.txt"));
}

TEST(RunTerminal, IsSafeWhateverTheNames) {
  const std::string text = render_run(run_sample(), nullptr);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("\\x1b[31m"));
  EXPECT_THAT(text, Not(HasSubstr("\u2028")));
}

TEST(RunTerminal, ColoursOnlyWhereAsked) {
  RunTextOptions options;
  options.color = true;
  EXPECT_THAT(render_run(run_sample(), nullptr, options),
              HasSubstr("\x1b[1;31mmismatch\x1b[0m   linear/small-3f09a1c2"));
}

TEST(RunTerminal, SaysHowManyCasesItLeavesOut) {
  const RunResult run = large_run(1400);
  RunTextOptions options;
  options.cases = 10;
  const std::string few = render_run(run, nullptr, options);
  EXPECT_EQ(count(few, "  again: "), 10u);
  EXPECT_THAT(few, HasSubstr("190 more cases that are no match, --all shows"));
  options.all = true;
  EXPECT_EQ(count(render_run(run, nullptr, options), "  again: "), 200u);
}

TEST(RunTerminal, TableKeepsToTheWidth) {
  RunTextOptions options;
  for (const std::size_t columns : {100u, 120u, 160u}) {
    options.columns = columns;
    const std::string text = render_run(run_sample(), nullptr, options);
    std::string table = text.substr(text.find("\nmodule") + 1);
    table = table.substr(0, table.find("\n\n"));
    std::istringstream lines(table);
    for (std::string line; std::getline(lines, line);)
      EXPECT_LE(display_width(line), columns) << line;
  }
}

TEST(RunTerminal, NarrowTablesKeepNamesThatAreTyped) {
  RunResult run = run_sample();
  run.modules.resize(2);
  run.modules[1].module = "dot_product_attention";
  run.modules[1].cases[0].checks[0].name = "grad.self_attention.key.weight";
  RunTextOptions options;
  options.columns = 100;
  const std::string text = render_run(run, nullptr, options);
  const std::string table = text.substr(0, text.find("\n\nmismatch"));
  EXPECT_THAT(table, HasSubstr("\ndot_product_attention  "));
  EXPECT_THAT(table, HasSubstr(" small-3f09a1c2  "));
}

TEST(RunTerminal, EmptyCasesAreNoFailures) {
  RunResult run = run_sample();
  run.modules.resize(1);
  run.modules[0].cases[1].verdict = Verdict::kEmpty;
  conclude(run);
  const std::string text = render_run(run, nullptr);
  EXPECT_THAT(text, HasSubstr("match   1 case agrees, 1 more is empty\n"));
  EXPECT_THAT(text, HasSubstr("empty 1   pass rate 100 %\n"));
  EXPECT_THAT(text, HasSubstr("1/1      1  100 %"));
}

TEST(RunTerminal, AnEmptyRunHasPassedNothing) {
  RunResult run;
  conclude(run);
  const std::string text = render_run(run, nullptr);
  EXPECT_THAT(text, HasSubstr("incomplete   nothing was compared\n"));
  EXPECT_THAT(text, HasSubstr("match 0   mismatch 0   incomplete 0   empty 0  "
                              " pass rate 0.0 %\n"));
}

TEST(RunTerminal, AnInterruptedRunSaysSo) {
  RunResult run = run_sample();
  run.modules.resize(1);
  run.modules[0].cases[1].ending = Ending::kNotRun;
  run.modules[0].cases[1].verdict = Verdict::kIncomplete;
  run.modules[0].cases[1].checks.clear();
  run.interrupted = true;
  conclude(run);
  const std::string text = render_run(run, nullptr);
  EXPECT_THAT(text, HasSubstr("incomplete   1 of 2 cases could not be comp"));
  EXPECT_THAT(text, HasSubstr("interrupted: the cases that were not reached"));
  EXPECT_THAT(text, HasSubstr("not run\n  gelu: 1 case, first small-44556677"));
}

TEST(RunTerminal, RoundsThePassRateDown) {
  EXPECT_EQ(percent_text(1), "100 %");
  EXPECT_EQ(percent_text(9999.0 / 10000), "99.9 %");
  EXPECT_EQ(percent_text(0.29), "29.0 %");
  EXPECT_EQ(percent_text(0), "0.0 %");
}

TEST(RunView, AMismatchIsWorseThanALargerErrorThatMatches) {
  RunResult run = run_sample();
  run.modules[1].cases[0].checks[0].norm_l2 = 0.5;  // a match
  const WorstCheck worst = worst_check(run.modules[1]);
  EXPECT_EQ(worst.subject->subject.id, "small-3f09a1c2");
  EXPECT_EQ(worst.check->name, "y");
}

TEST(RunJUnit, LooksLikeTheExample) {
  EXPECT_EQ(junit(run_sample()), golden_text("run.xml"));
}

TEST(RunJUnit, WhatWasNotComparedIsNeverGreen) {
  const Ending all[] = {
      Ending::kRefused, Ending::kFailed, Ending::kUnsupported, Ending::kCrashed,
      Ending::kTimeout, Ending::kMemory, Ending::kGarbage,     Ending::kStale,
      Ending::kMissing, Ending::kNotRun};
  for (const Ending ending : all) {
    RunResult run = run_sample();
    run.modules.resize(1);
    run.modules[0].cases.resize(1);
    run.modules[0].cases[0].ending = ending;
    for (const Verdict verdict : {Verdict::kIncomplete, Verdict::kMatch}) {
      run.modules[0].cases[0].verdict = verdict;
      const std::string text = junit(run);
      EXPECT_THAT(text, HasSubstr("<error type=\"" +
                                  std::string(to_string(ending)) + "\""));
      EXPECT_THAT(text, HasSubstr("tests=\"1\" failures=\"0\" errors=\"1\""));
      EXPECT_THAT(text, Not(HasSubstr("<skipped")));
    }
  }
}

TEST(RunJUnit, NothingComparedIsAnError) {
  RunResult run;
  EXPECT_THAT(junit(run), HasSubstr("errors=\"1\""));
  run.modules.resize(1);
  run.modules[0].module = "gelu";
  EXPECT_THAT(junit(run), HasSubstr("<testsuite name=\"gelu\" tests=\"1\" "
                                    "failures=\"0\" errors=\"1\""));
  run = run_sample();
  run.modules.resize(1);
  for (CaseResult& c : run.modules[0].cases) c.verdict = Verdict::kEmpty;
  EXPECT_THAT(
      junit(run),
      HasSubstr("tests=\"3\" failures=\"0\" errors=\"1\" skipped=\"2\""));
  run.modules[0].cases[0].verdict = Verdict::kMatch;
  EXPECT_THAT(junit(run), HasSubstr("errors=\"0\""));
  run.interrupted = true;
  EXPECT_THAT(junit(run), HasSubstr("the run was interrupted"));
}

TEST(RunHtml, NamesCannotLeaveTheData) {
  const std::string text = page(run_sample());
  EXPECT_EQ(count(text, "</script>"), 2u);  // the page's own
  EXPECT_EQ(count(text, "<img"), 0u);
  EXPECT_THAT(text, HasSubstr("\\u003c/script>\\u003cimg"));
  EXPECT_THAT(text, Not(HasSubstr("\u2028")));
  EXPECT_THAT(text, Not(HasSubstr("{{")));
  EXPECT_THAT(text, Not(testing::ContainsRegex("(src|href)=\"http")));
}

TEST(ApiCoverage, TellsWhatNoModuleGuards) {
  const ApiCoverage api = api_coverage(run_sample(), scanned_sample());
  ASSERT_EQ(api.guarded.size(), 5u);  // one by another name
  ASSERT_EQ(api.unguarded.size(), 2u);
  EXPECT_EQ(api.unguarded[0].name, "transformer_engine.common.recipe.Format");
  EXPECT_TRUE(api.unknown.empty());
  EXPECT_EQ(coverage_text(api), "guards 5 of 7 API names (77.5 % of 120 uses)");
  const ApiCoverage none = api_coverage(run_sample(), {});
  EXPECT_EQ(none.unknown.size(), 4u);
  EXPECT_EQ(coverage_text(none), "guards 0 of 0 API names");
}

TEST(ApiCoverage, ReadsWhatTheScanWrites) {
  const auto path = scratch("scan.json");
  std::ofstream(path) << R"({"assay_api_scan": 1, "apis": [
      {"name": "a.B", "uses": 3, "kinds": {"call": 3}, "guarded_by": ["m"]},
      {"name": "a.C", "uses": 1}]})";
  const std::vector<ApiName> names = read_scanned_api(path);
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0].name, "a.B");
  EXPECT_EQ(names[0].uses, 3);
  EXPECT_THAT(names[0].guards, testing::ElementsAre("m"));
  std::ofstream(path) << R"({"assay_api_manifest": 1, "symbols": {}})";
  EXPECT_THROW(read_scanned_api(path), Error);
  std::ofstream(path) << R"({"assay_api_scan": 1, "apis": [{"uses": -1}]})";
  EXPECT_THROW(read_scanned_api(path), Error);
}

TEST(RunReports, TenThousandCasesTakeLessThanASecond) {
  const RunResult run = large_run(10'000);
  const auto start = std::chrono::steady_clock::now();
  RunTextOptions options;
  options.all = true;
  EXPECT_FALSE(render_run(run, nullptr, options).empty());
  junit(run);
  page(run);
  const auto path = scratch("large.json");
  write_run(run, path);
  EXPECT_EQ(read_run(path).modules.size(), 20u);
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
  // All of them together, with room for sanitizers and a busy machine.
  EXPECT_LT(took.count(), 5);
}

}  // namespace
}  // namespace assay::conform
