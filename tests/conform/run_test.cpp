// Runs: goldens that are stale, interruptions, several workers, ranks, times.
#include "assay/conform/run.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>

#include "assay/base/error.h"
#include "assay/conform/slower.h"
#include "assay/conform/store.h"
#include "run_fixture.h"

namespace assay::conform {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_F(RunTest, TheSameCopyMatches) {
  const Collected collected = collect_with();
  EXPECT_EQ(collected.made, 3);
  EXPECT_EQ(collected.kept, 0);
  const RunResult result = run_with();
  EXPECT_EQ(result.verdict, Verdict::kMatch);
  EXPECT_EQ(tally(result).match, 3);
  EXPECT_EQ(result.golden.implementation, "copy");
  EXPECT_FALSE(result.interrupted);
  EXPECT_FALSE(std::filesystem::exists(path("run") / "logs"));
}

TEST_F(RunTest, NoGoldensAreNoMatch) {
  GoldenWriter{path("goldens")};
  const RunResult result = run_with();
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  for (const CaseResult& c : result.modules.at(0).cases)
    EXPECT_EQ(c.ending, Ending::kMissing);
}

// The message of every case of a run, which are all stale.
std::set<std::string> stale_messages(const RunResult& result) {
  std::set<std::string> messages;
  for (const CaseResult& c : result.modules.at(0).cases) {
    EXPECT_EQ(to_string(c.ending), "stale") << c.message;
    EXPECT_EQ(c.verdict, Verdict::kIncomplete);
    EXPECT_TRUE(c.checks.empty());  // not one number
    messages.insert(c.message);
  }
  return messages;
}

TEST_F(RunTest, StaleByTheSpec) {
  collect_with();
  use(std::string(kCopySpec) + "# one more word\n");
  const auto messages = stale_messages(run_with());
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_THAT(*messages.begin(), HasSubstr("spec: golden made with"));
}

TEST_F(RunTest, StaleByTheAdapter) {
  collect_with();
  const auto messages = stale_messages(run_with("--adapter 2"));
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(*messages.begin(),
            "adapter: golden made with version 1, now version 2");
}

TEST_F(RunTest, StaleByThePolicy) {
  const auto policy = [](const char* fp8) {
    return std::string(R"(--environment '{"policy": {"fp8": ")") + fp8 +
           R"(", "gpu": ")" + fp8 + R"("}}')";
  };
  collect_with(policy("ocp"));
  const auto messages = stale_messages(run_with(policy("fnuz")));
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(*messages.begin(), "policy fp8: golden 'ocp', now 'fnuz'");
  // A side that says nothing of it is not known to differ.
  EXPECT_EQ(run_with().verdict, Verdict::kMatch);
}

// Another implementation is what a target is; it is the reference that may not
// have changed.
TEST_F(RunTest, StaleByTheImplementation) {
  collect_with();
  options_.resume = true;
  EXPECT_EQ(collect_with().kept, 3);
  EXPECT_EQ(collect_with("--version 2").made, 3);
  EXPECT_EQ(collect_with("--version 2").kept, 3);
  EXPECT_EQ(collect_with("--version 2 --environment '{\"cuda\": 13}'").made, 3);
  EXPECT_EQ(run_with("--version 7").verdict, Verdict::kMatch);
}

TEST_F(RunTest, GoldensOfSeveralMakersAreNamed) {
  collect_with();
  options_.only = {make_cases(options_.specs[0], Tier::kSmall)[0].id};
  collect_with("--version 2");
  options_.only.clear();
  const RunResult result = run_with();
  ASSERT_EQ(result.warnings.size(), 1u);
  EXPECT_THAT(result.warnings[0],
              AllOf(HasSubstr("copy 1 on cpu"), HasSubstr("copy 2 on cpu")));
}

TEST_F(RunTest, GoesOnWhereItWasInterrupted) {
  collect_with();
  std::atomic<bool> stop{false};
  options_.stop = &stop;
  options_.progress = [&](std::int64_t done, std::int64_t) {
    if (done == 2) stop = true;
  };
  const std::string count = "--count " + path("count").string();
  const RunResult first = run_with(count);
  EXPECT_TRUE(first.interrupted);
  EXPECT_EQ(first.verdict, Verdict::kIncomplete);
  EXPECT_EQ(tally(first).match, 2);
  EXPECT_EQ(first.modules[0].cases[2].ending, Ending::kNotRun);
  EXPECT_EQ(lines(path("count")).size(), 4u);  // each case runs twice

  options_.stop = nullptr;
  options_.resume = true;
  const RunResult second = run_with(count);
  EXPECT_EQ(second.verdict, Verdict::kMatch);
  EXPECT_EQ(tally(second).match, 3);
  EXPECT_EQ(lines(path("count")).size(), 6u);
  // Without it everything is run again.
  options_.resume = false;
  run_with(count);
  EXPECT_EQ(lines(path("count")).size(), 12u);
}

TEST_F(RunTest, ResumesNothingOfAnotherTargetOrGolden) {
  collect_with();
  const std::string count = "--count " + path("count").string();
  run_with(count);
  options_.resume = true;
  run_with(count);
  EXPECT_EQ(lines(path("count")).size(), 6u);
  run_with(count + " --version 2");
  EXPECT_EQ(lines(path("count")).size(), 12u);
  options_.resume = false;
  collect_with("--version 3");
  options_.resume = true;
  run_with(count);
  EXPECT_EQ(lines(path("count")).size(), 18u);
}

// Edited, though it claims to be of the same version.
TEST_F(RunTest, ResumesNothingOfAWorkerThatWasChanged) {
  collect_with();
  WorkerCommand target = worker("--count " + path("count").string());
  const auto script = std::find_if(
      target.arguments.begin(), target.arguments.end(),
      [](const std::string& word) { return word.ends_with("hostile.py"); });
  ASSERT_NE(script, target.arguments.end());
  std::filesystem::copy_file(*script, path("worker.py"));
  *script = path("worker.py").string();
  const auto run_it = [&] {
    run(options_, target, {path("goldens"), path("run"), ""});
    return lines(path("count")).size();
  };
  EXPECT_EQ(run_it(), 6u);
  options_.resume = true;
  EXPECT_EQ(run_it(), 6u);
  std::ofstream(path("worker.py"), std::ios::app) << "# changed\n";
  EXPECT_EQ(run_it(), 12u);
}

TEST_F(RunTest, ResumesPastALineThatWasCutShort) {
  collect_with();
  const std::string count = "--count " + path("count").string();
  run_with(count);
  const std::filesystem::path journal = path("run") / "journal.jsonl";
  std::filesystem::resize_file(journal,
                               std::filesystem::file_size(journal) - 30);
  options_.resume = true;
  EXPECT_EQ(tally(run_with(count)).match, 3);
  EXPECT_EQ(lines(path("count")).size(), 8u);
  EXPECT_EQ(tally(run_with(count)).match, 3);
  EXPECT_EQ(lines(path("count")).size(), 8u);
}

TEST_F(RunTest, TriesACrashAgain) {
  collect_with();
  run_with("--mode segv");
  options_.resume = true;
  const RunResult again = run_with("--mode segv");
  EXPECT_EQ(case_of(again, 2).ending, Ending::kCrashed);
  EXPECT_THAT(read(case_of(again, 2).log), HasSubstr("about to segv"));
}

TEST_F(RunTest, SeveralWorkersGiveTheSameResult) {
  use(R"(module: copy
summary: outputs are the inputs
api: [copy]
parameters:
  n: [1, 2, 3, 4, 5, 6, 7, 8]
inputs:
  x: {shape: [n, 4], dtype: float32, values: normal}
outputs:
  x: {shape: [n, 4], dtype: float32}
)");
  options_.workers = 3;
  EXPECT_EQ(collect_with().made, 8);
  const RunResult result = run_with("--mode kill --at 5");
  EXPECT_EQ(tally(result).match, 7);
  EXPECT_EQ(case_of(result, 5).ending, Ending::kCrashed);
  std::vector<std::string> ids, expected;
  for (const CaseResult& c : result.modules[0].cases)
    ids.push_back(c.subject.id);
  for (const Case& c : make_cases(options_.specs[0], Tier::kSmall))
    expected.push_back(c.id);
  EXPECT_EQ(ids, expected);
}

TEST_F(RunTest, OnlyTheNamedCase) {
  collect_with();
  const Case c = make_cases(options_.specs[0], Tier::kSmall)[1];
  options_.only = {c.name()};
  const RunResult result = run_with();
  ASSERT_EQ(result.modules.at(0).cases.size(), 1u);
  EXPECT_EQ(result.modules[0].cases[0].subject.id, c.id);
  options_.only = {"copy/" + c.id.substr(0, c.id.size() - 1) + "~"};
  try {
    run_with();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("no such case"));
  }
}

constexpr const char* kRanksSpec = R"(module: copy
summary: every rank gives the inputs
api: [copy]
parameters:
  n: [2]
  ranks: [1, 2, 3]
inputs:
  x: {shape: [n, 4], dtype: float32, values: normal}
outputs:
  x: {shape: [n, 4], dtype: float32, merge: sum}
)";

TEST_F(RunTest, RanksAreComparedEachAndMerged) {
  use(kRanksSpec);
  EXPECT_EQ(collect_with().made, 3);
  const RunResult result = run_with();
  EXPECT_EQ(tally(result).match, 3) << result.modules[0].cases[2].message;
  for (const CaseResult& c : result.modules[0].cases) {
    std::set<int> ranks;
    for (const Check& check : c.checks)
      if (check.name == "x") ranks.insert(check.rank);
    std::set<int> expected;
    for (int r = c.subject.ranks == 1 ? 0 : -1; r < c.subject.ranks; ++r)
      expected.insert(r);
    EXPECT_EQ(ranks, expected);
  }
}

RunResult timed(double a, double b) {
  RunResult run;
  run.modules.emplace_back();
  for (const auto& [id, seconds] : {std::pair("a", a), std::pair("b", b)}) {
    CaseResult c;
    c.subject.module = "m";
    c.subject.id = id;
    c.seconds = seconds;
    run.modules[0].cases.push_back(c);
  }
  return run;
}

TEST(Slower, WarnsOfWhatTakesLonger) {
  RunResult run = timed(0.2, 0.11);
  compare_times(timed(0.1, 0.1), 1.5, run);
  EXPECT_DOUBLE_EQ(run.modules[0].cases[0].slower, 2);
  EXPECT_DOUBLE_EQ(run.modules[0].cases[1].slower, 1.1);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_THAT(run.warnings[0],
              AllOf(HasSubstr("m/a takes 2.0 times"), HasSubstr("0.20 s")));
}

TEST(Slower, NamesABaselineOfAnotherTarget) {
  RunResult run = timed(0.1, 0.1), baseline = timed(0.1, 0.1);
  compare_times(baseline, 1.5, run);
  EXPECT_TRUE(run.warnings.empty());
  baseline.target.environment["isa"] = "avx2";
  compare_times(baseline, 1.5, run);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_THAT(run.warnings[0], HasSubstr("are of another target"));
}

TEST(Slower, SaysNothingOfMoments) {
  RunResult run = timed(0.009, 0.5);
  compare_times(timed(0.001, 0.009), 1.5, run);
  EXPECT_EQ(run.modules[0].cases[0].slower, 0);
  EXPECT_EQ(run.modules[0].cases[1].slower, 0);
  ASSERT_EQ(run.warnings.size(), 1u);
  EXPECT_THAT(run.warnings[0], HasSubstr("no times were compared"));
}

}  // namespace
}  // namespace assay::conform
