#include "assay/report/history/history.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "assay/base/clock.h"
#include "assay/base/error.h"
#include "assay/report/history/database.h"
#include "assay/report/history/history_of_comparison.h"
#include "assay/report/history/history_text.h"
#include "tests/report/files.h"
#include "tests/report/sample.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kHostile[] = "'; DROP TABLE run; --\"\x1b[31m</script>\u2028";

HistoryEntry entry(std::string name, Verdict verdict, double figure = 1e-3,
                   double seconds = 0.1) {
  return {"linear",
          std::move(name),
          verdict,
          "compared",
          figure,
          seconds,
          verdict == Verdict::kMatch ? "" : "alpha"};
}

HistoryRun run_of(std::vector<HistoryEntry> entries,
                  std::string began = "2026-11-30T01:00:00Z") {
  HistoryRun run;
  run.kind = "conform";
  run.began = std::move(began);
  run.golden = "torch, cpu";
  run.target = "assay-cpu, cpu";
  run.target_version = "0.1.0";
  run.verdict = Verdict::kMismatch;
  run.seconds = 2.5;
  run.entries = std::move(entries);
  count_entries(run);
  return run;
}

std::filesystem::path fresh(const std::string& name = "history.db") {
  const auto path = scratch(name);
  for (const char* suffix : {"", "-wal", "-shm"})
    std::filesystem::remove(path.string() + suffix);
  return path;
}

Code code_of(const std::filesystem::path& path, History::Mode mode,
             std::string* what = nullptr) {
  try {
    History history(path, mode);
  } catch (const Error& error) {
    if (what) *what = error.what();
    return error.code();
  }
  return Code::kInternal;  // it opened
}

TEST(History, GivesBackWhatItKept) {
  History history(fresh(), History::Mode::kWrite);
  HistoryRun run = run_of({entry("a", Verdict::kMatch),
                           entry("b", Verdict::kMismatch, INFINITY),
                           entry("c", Verdict::kIncomplete, NAN)});
  run.interrupted = true;
  run.command = "assay conform run";
  EXPECT_EQ(history.add(run).number, 1);
  const HistoryRun back = history.run(1);
  EXPECT_EQ(back.kind, "conform");
  EXPECT_EQ(back.began, run.began);
  EXPECT_EQ(back.command, run.command);
  EXPECT_EQ(back.verdict, Verdict::kMismatch);
  EXPECT_TRUE(back.interrupted);
  EXPECT_EQ(back.seconds, 2.5);
  EXPECT_EQ(back.match, 1);
  EXPECT_EQ(back.mismatch, 1);
  EXPECT_EQ(back.incomplete, 1);
  ASSERT_EQ(back.entries.size(), 3u);
  EXPECT_EQ(back.entries[0].figure, 1e-3);
  EXPECT_EQ(back.entries[1].why, "alpha");
  EXPECT_TRUE(std::isinf(back.entries[1].figure));
  EXPECT_TRUE(std::isnan(back.entries[2].figure));
}

TEST(History, KeepsNamesAsTheyAre) {
  History history(fresh(), History::Mode::kWrite);
  HistoryEntry hostile = entry(kHostile, Verdict::kMismatch);
  hostile.group = std::string("nul\0byte", 8);
  hostile.why = "\xff\xfe";
  HistoryRun run = run_of({hostile, entry("", Verdict::kMatch)});
  run.golden = run.target = run.kind = run.command = kHostile;
  history.add(run);
  const HistoryRun back = history.run(1);
  EXPECT_EQ(back.golden, kHostile);
  EXPECT_EQ(back.entries[0].name, kHostile);
  EXPECT_EQ(back.entries[0].group, hostile.group);
  EXPECT_EQ(back.entries[0].why, hostile.why);
  EXPECT_EQ(back.entries[1].name, "");
  EXPECT_EQ(history.runs(10).size(), 1u);  // the table is still there
  HistoryTextOptions options;
  options.all = true;
  options.columns = 0;
  for (const std::string& text : {render_runs(history.runs(10), options),
                                  render_history_run(back, options)}) {
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, HasSubstr("\\x1b[31m"));
  }
  EXPECT_EQ(
      nlohmann::json::parse(runs_json(history.runs(10)))["runs"][0]["golden"],
      kHostile);
}

TEST(History, AddsARunOnce) {
  History history(fresh(), History::Mode::kWrite);
  const HistoryRun run = run_of({entry("a", Verdict::kMatch)});
  EXPECT_FALSE(history.add(run).known);
  const History::Added again = history.add(run);
  EXPECT_TRUE(again.known);
  EXPECT_EQ(again.number, 1);
  EXPECT_EQ(history.add(run_of(run.entries, "2026-11-30T02:00:00Z")).number, 2);
  EXPECT_EQ(history.runs(10).size(), 2u);
  EXPECT_EQ(history.runs(1)[0].number, 2);
}

TEST(History, PreviousHasTheSameSides) {
  History history(fresh(), History::Mode::kWrite);
  const auto add = [&](const char* began, const char* target) {
    HistoryRun run = run_of({entry("a", Verdict::kMatch)}, began);
    run.target = target;
    return history.add(run).number;
  };
  EXPECT_FALSE(history.newest().has_value());
  add("1", "cpu");
  add("2", "npu");
  add("3", "cpu");
  EXPECT_EQ(history.newest(), 3);
  EXPECT_EQ(history.previous(3), 1);
  EXPECT_FALSE(history.previous(2).has_value());
  EXPECT_THROW(history.run(4), Error);
}

TEST(History, RefusesWhatIsNoHistory) {
  std::string what;
  const auto text = fresh("text.db");
  std::ofstream(text) << std::string(5000, 'x');
  for (const auto mode : {History::Mode::kRead, History::Mode::kWrite}) {
    EXPECT_EQ(code_of(text, mode, &what), Code::kRefused);
    EXPECT_THAT(what, HasSubstr("no history: not an SQLite file"));
    EXPECT_THAT(what, Not(HasSubstr("\n")));
  }
  EXPECT_EQ(read_text(text), std::string(5000, 'x'));

  const auto foreign = fresh("foreign.db");
  Database(foreign, true).execute("CREATE TABLE cookies(x)");
  for (const auto mode : {History::Mode::kRead, History::Mode::kWrite}) {
    EXPECT_EQ(code_of(foreign, mode, &what), Code::kRefused);
    EXPECT_THAT(what, HasSubstr("of another program"));
  }
  EXPECT_EQ(code_of(fresh("absent.db"), History::Mode::kRead, &what),
            Code::kUnreadable);
  EXPECT_THAT(what, HasSubstr("no history yet"));
  std::ofstream(fresh("empty.db")).flush();
  EXPECT_EQ(code_of(scratch("empty.db"), History::Mode::kRead, &what),
            Code::kUnreadable);
  EXPECT_THAT(what, HasSubstr("no run yet"));
  EXPECT_FALSE(std::filesystem::exists(scratch("absent.db")));
  EXPECT_EQ(code_of(scratch("absent.db").parent_path(), History::Mode::kRead),
            Code::kUnreadable);
}

TEST(History, RefusesANewerVersionAndOtherTables) {
  std::string what;
  const auto path = fresh();
  { History history(path, History::Mode::kWrite); }
  Database(path, true).execute("PRAGMA user_version = 99");
  EXPECT_EQ(code_of(path, History::Mode::kRead, &what), Code::kRefused);
  EXPECT_THAT(what, HasSubstr("history of version 99"));
  EXPECT_EQ(code_of(path, History::Mode::kWrite), Code::kRefused);
  Database(path, true)
      .execute(
          "PRAGMA user_version = 1; CREATE TRIGGER t AFTER INSERT ON run BEGIN "
          "DELETE FROM entry; END");
  EXPECT_EQ(code_of(path, History::Mode::kWrite, &what), Code::kRefused);
  EXPECT_THAT(what, HasSubstr("other tables"));
  EXPECT_EQ(code_of(path, History::Mode::kRead), Code::kRefused);
}

TEST(History, RefusesDamageInsteadOfCrashing) {
  const auto path = fresh();
  {
    History history(path, History::Mode::kWrite);
    std::vector<HistoryEntry> entries;
    for (int i = 0; i < 2000; ++i)
      entries.push_back(entry("case" + std::to_string(i), Verdict::kMatch));
    history.add(run_of(std::move(entries)));
  }
  const std::string whole = read_text(path);
  ASSERT_GT(whole.size(), 20'000u);
  int refused = 0;
  for (std::size_t at = 4096; at < whole.size(); at += 8192) {
    std::string damaged = whole;
    damaged.replace(at, std::min<std::size_t>(700, whole.size() - at),
                    std::string(700, '\xAA'));
    const auto copy = fresh("damaged.db");
    std::ofstream(copy, std::ios::binary) << damaged;
    try {
      const History history(copy, History::Mode::kRead);
      history.run(1);
    } catch (const Error& error) {
      ++refused;
      EXPECT_EQ(error.code(), Code::kRefused) << error.what();
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(History, WritersOfSeveralProcessesAllSucceed) {
  const auto path = fresh();
  constexpr int kWriters = 4, kRuns = 8;
  std::vector<pid_t> children;
  for (int w = 0; w < kWriters; ++w) {
    const pid_t child = fork();
    if (child == 0) {
      int failed = 0;
      for (int i = 0; i < kRuns; ++i) try {
          History history(path, History::Mode::kWrite);
          history.add(run_of({entry("a", Verdict::kMatch)},
                             std::to_string(w * 100 + i)));
        } catch (const Error& error) {
          std::fprintf(stderr, "%s\n", error.what());
          failed = 1;
        }
      _exit(failed);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const History history(path, History::Mode::kRead);
  EXPECT_EQ(history.runs(1000).size(),
            static_cast<std::size_t>(kWriters * kRuns));
}

TEST(History, KeepsAComparison) {
  const Comparison comparison = gelu_sample();
  History history(fresh(), History::Mode::kWrite);
  history.add(history_of(comparison, utc_time()));
  const HistoryRun back = history.run(1);
  EXPECT_EQ(back.kind, "compare");
  EXPECT_EQ(back.golden, "gpu");
  EXPECT_EQ(back.match, comparison.counts.match);
  EXPECT_EQ(back.mismatch, comparison.counts.mismatch);
  EXPECT_EQ(back.incomplete, comparison.counts.incomplete);
  EXPECT_EQ(back.entries.size(), comparison.rows.size());
  EXPECT_THAT(utc_time(), testing::MatchesRegex("20..-..-..T..:..:..Z"));
}

TEST(History, TenThousandEntriesTakeLessThanASecond) {
  History history(fresh(), History::Mode::kWrite);
  std::vector<HistoryEntry> entries;
  for (int i = 0; i < 10'000; ++i)
    entries.push_back(entry("case" + std::to_string(i), Verdict::kMatch));
  const auto start = std::chrono::steady_clock::now();
  history.add(run_of(entries, "1"));
  history.add(run_of(std::move(entries), "2"));
  const HistoryDiff changes = diff(history.run(1), history.run(2));
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  RecordProperty("milliseconds", static_cast<int>(took.count() * 1000));
  EXPECT_TRUE(changes.changes.empty());
  EXPECT_LT(took.count(), 5);  // with room for a busy machine
}

// --- what changed ---

HistoryDiff changed(std::vector<HistoryEntry> before,
                    std::vector<HistoryEntry> after) {
  return diff(run_of(std::move(before)), run_of(std::move(after)));
}

TEST(HistoryDiff, TellsEveryKindOfChange) {
  HistoryEntry other = entry("x", Verdict::kMatch);
  other.group = "gelu";
  const HistoryDiff d = changed(
      {entry("fails", Verdict::kMatch), entry("fixed", Verdict::kMismatch),
       entry("lost", Verdict::kMatch), entry("worse", Verdict::kMatch, 1e-3),
       entry("slower", Verdict::kMatch, 1e-3, 0.1),
       entry("gone", Verdict::kMatch), entry("same", Verdict::kMismatch),
       other},
      {entry("fails", Verdict::kMismatch), entry("fixed", Verdict::kMatch),
       entry("lost", Verdict::kIncomplete),
       entry("worse", Verdict::kMatch, 3e-3),
       entry("slower", Verdict::kMatch, 1e-3, 0.25),
       entry("new", Verdict::kMatch), entry("same", Verdict::kMismatch)});
  for (const Change change :
       {Change::kNewlyFailing, Change::kNotCompared, Change::kFixed,
        Change::kWorse, Change::kSlower, Change::kNew, Change::kGone})
    EXPECT_EQ(d.count(change), 1) << to_string(change);
  EXPECT_EQ(d.still_failing, 1);
  ASSERT_EQ(d.groups_not_run.size(), 1u);
  EXPECT_EQ(d.groups_not_run[0].first, "gelu");
  EXPECT_EQ(d.verdict(), Verdict::kMismatch);
  EXPECT_EQ(render_diff(d, {}),
            read_text(std::string(ASSAY_TEST_DATA) + "/report/history.txt"));
  const auto json = nlohmann::json::parse(diff_json(d));
  EXPECT_EQ(json["schema"], "assay-history-diff");
  EXPECT_EQ(json["verdict"], "mismatch");
  EXPECT_EQ(json["changes"].size(), 7u);
  EXPECT_EQ(json["changes"][0]["change"], "newly failing");
  EXPECT_EQ(json["changes"][0]["after"]["why"], "alpha");
  EXPECT_EQ(json["groups_not_run"][0]["entries"], 1);
}

TEST(HistoryDiff, NothingChangedIsSaid) {
  const HistoryDiff d = changed({entry("a", Verdict::kMatch)},
                                {entry("a", Verdict::kMatch, 1.9e-3, 0.14)});
  EXPECT_TRUE(d.changes.empty());
  EXPECT_EQ(d.verdict(), Verdict::kMatch);
  EXPECT_THAT(render_diff(d, {}), HasSubstr("nothing changed\n"));
}

TEST(HistoryDiff, AFigureThatWasExactIsWorse) {
  const HistoryDiff d = changed({entry("a", Verdict::kMatch, 0)},
                                {entry("a", Verdict::kMatch, 1e-9)});
  ASSERT_EQ(d.changes.size(), 1u);
  EXPECT_TRUE(std::isinf(d.changes[0].ratio));
  EXPECT_THAT(render_diff(d, {}), HasSubstr("rel. L2 0 -> "));
  EXPECT_EQ(d.verdict(), Verdict::kMatch);  // the standard judges, not this
  // No figure is neither better nor worse.
  EXPECT_TRUE(changed({entry("a", Verdict::kMatch, NAN)},
                      {entry("a", Verdict::kMatch, 1)})
                  .changes.empty());
}

TEST(HistoryDiff, MicrosecondsAreNoSlowdown) {
  EXPECT_TRUE(changed({entry("a", Verdict::kMatch, 0, 1e-6)},
                      {entry("a", Verdict::kMatch, 0, 5e-4)})
                  .changes.empty());
}

TEST(HistoryDiff, WhatIsLostIsNoPass) {
  const HistoryEntry a = entry("a", Verdict::kMatch);
  const HistoryEntry b = entry("b", Verdict::kMatch);
  EXPECT_EQ(changed({a, b}, {a}).verdict(), Verdict::kIncomplete);
  EXPECT_EQ(changed({a}, {}).verdict(), Verdict::kIncomplete);
  EXPECT_EQ(changed({a}, {a, entry("c", Verdict::kMismatch)}).verdict(),
            Verdict::kMismatch);
  EXPECT_EQ(changed({a}, {a, b}).verdict(), Verdict::kMatch);
}

}  // namespace
}  // namespace assay
