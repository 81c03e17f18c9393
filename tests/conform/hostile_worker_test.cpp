// A worker that does its worst fails its own case, with its log, and no other.
#include <gmock/gmock.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "assay/base/error.h"
#include "assay/conform/exports.h"
#include "assay/conform/protocol.h"
#include "run_fixture.h"

namespace assay::conform {
namespace {

using ::testing::HasSubstr;

struct Misdeed {
  const char* mode;
  Ending ending;
  const char* message;  // part of it
  double seconds = 20;  // that the case may take
};

void PrintTo(const Misdeed& misdeed, std::ostream* out) {
  *out << misdeed.mode;
}

class HostileWorkerTest : public RunTest,
                          public ::testing::WithParamInterface<Misdeed> {};

TEST_P(HostileWorkerTest, FailsItsCaseAlone) {
  const Misdeed& misdeed = GetParam();
  ASSERT_TRUE(collect_with().failures.empty());
  options_.limits.seconds = misdeed.seconds;
  options_.limits.memory_bytes = std::int64_t{300} << 20;
  const RunResult result = run_with(std::string("--mode ") + misdeed.mode +
                                    " --note " + path("note").string());
  const CaseResult& bad = case_of(result, 2);
  EXPECT_EQ(to_string(bad.ending), to_string(misdeed.ending));
  EXPECT_THAT(bad.message, HasSubstr(misdeed.message));
  EXPECT_NE(bad.verdict, Verdict::kMatch);
  ASSERT_NE(bad.log, "");
  EXPECT_THAT(read(bad.log),
              HasSubstr(std::string("about to ") + misdeed.mode));
  for (const std::int64_t n : {1, 3}) {
    EXPECT_EQ(case_of(result, n).verdict, Verdict::kMatch)
        << n << ": " << case_of(result, n).message;
    EXPECT_EQ(case_of(result, n).log, "");
  }
  EXPECT_NE(result.verdict, Verdict::kMatch);
}

INSTANTIATE_TEST_SUITE_P(
    Endings, HostileWorkerTest,
    ::testing::Values(
        Misdeed{"segv", Ending::kCrashed, "SIGSEGV"},
        Misdeed{"kill", Ending::kCrashed, "SIGKILL"},
        Misdeed{"abort", Ending::kCrashed, "SIGABRT"},
        Misdeed{"exit", Ending::kCrashed, "exit 3"},
        Misdeed{"close", Ending::kCrashed, "ended without an answer"},
        Misdeed{"sleep", Ending::kTimeout, "no answer within", 0.7},
        Misdeed{"half", Ending::kCrashed, "exit 0"},
        Misdeed{"half-hang", Ending::kTimeout, "no answer within", 0.7},
        Misdeed{"fork-exit", Ending::kTimeout, "no answer within", 0.7},
        Misdeed{"memory", Ending::kMemory, "over the memory limit of 314"},
        Misdeed{"garbage", Ending::kGarbage, "found 'Traceback"},
        Misdeed{"binary", Ending::kGarbage, "no JSON"},
        Misdeed{"stdout", Ending::kGarbage, "found 'a library says hello'"},
        Misdeed{"long", Ending::kGarbage, "without an end"},
        Misdeed{"deep", Ending::kGarbage, "deeper than 64 levels"},
        Misdeed{"other-id", Ending::kGarbage, "answer to request"},
        Misdeed{"hello-again", Ending::kGarbage, "type: hello"},
        Misdeed{"negative-time", Ending::kGarbage, "seconds: -1"}),
    [](const auto& info) {
      std::string name = info.param.mode;
      std::erase(name, '-');
      return name;
    });

INSTANTIATE_TEST_SUITE_P(
    OutputFiles, HostileWorkerTest,
    ::testing::Values(
        Misdeed{"missing", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"truncated", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"cut-header", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"empty-file", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"huge-header", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"huge-shape", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"overlap", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"pickle", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"fifo", Ending::kGarbage, "not a regular file"},
        Misdeed{"folder", Ending::kGarbage, "outputs cannot be read"},
        Misdeed{"link", Ending::kGarbage, "not a regular file"}),
    [](const auto& info) {
      std::string name = info.param.mode;
      std::erase(name, '-');
      return name;
    });

INSTANTIATE_TEST_SUITE_P(
    Answers, HostileWorkerTest,
    ::testing::Values(Misdeed{"unsupported", Ending::kUnsupported, "no n of 2"},
                      Misdeed{"refuse", Ending::kRefused, "the target refuses"},
                      Misdeed{"fault", Ending::kFailed, "'y' is not defined"},
                      Misdeed{"wrong", Ending::kCompared, "x: "},
                      Misdeed{"random", Ending::kCompared, "x: "}),
    [](const auto& info) { return std::string(info.param.mode); });

bool is_alive(int pid) {
  if (::kill(pid, 0) != 0) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');
  return name_end != std::string::npos && text[name_end + 2] != 'Z';
}

bool all_dead(const std::vector<std::string>& pids) {
  for (int i = 0; i < 100; ++i) {
    bool alive = false;
    for (const std::string& pid : pids) alive |= is_alive(std::stoi(pid));
    if (!alive) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

TEST_F(RunTest, KillsWhatACrashedWorkerLeavesBehind) {
  collect_with();
  options_.limits.seconds = 0.7;
  run_with("--mode fork-exit --note " + path("note").string());
  const std::vector<std::string> pids = lines(path("note"));
  ASSERT_EQ(pids.size(), 2u);
  EXPECT_TRUE(all_dead(pids));
}

TEST_F(RunTest, KillsWhatAGoodWorkerLeavesBehind) {
  collect_with();
  const RunResult result =
      run_with("--mode fork --note " + path("note").string());
  EXPECT_EQ(case_of(result, 2).verdict, Verdict::kMatch);
  const std::vector<std::string> pids = lines(path("note"));
  ASSERT_EQ(pids.size(), 4u);  // it runs twice
  EXPECT_TRUE(all_dead(pids));
}

TEST_F(RunTest, DrainsAFloodOfComplaints) {
  collect_with();
  const RunResult result = run_with("--mode flood");
  EXPECT_EQ(result.verdict, Verdict::kMatch) << case_of(result, 2).message;
}

TEST_F(RunTest, SaysWhyAWorkerCannotBeStarted) {
  collect_with();
  const auto message = [&](const WorkerCommand& command) -> std::string {
    try {
      run(options_, command, {path("goldens"), path("run"), ""});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kUnreadable);
      return error.what();
    }
    return "nothing";
  };
  EXPECT_THAT(
      message(parse_worker_command("no-such-program-anywhere")),
      HasSubstr("no-such-program-anywhere: cannot be started: No such"));
  EXPECT_THAT(message(worker("--mode exit-at-hello")),
              HasSubstr("no hello: exit 1; its log ends: ImportError"));
  EXPECT_THAT(message(worker("--mode other-protocol")), HasSubstr("99"));
  options_.limits.start_seconds = 0.5;
  EXPECT_THAT(message(worker("--mode no-hello")), HasSubstr("no hello within"));
}

TEST_F(RunTest, FailuresAtCollectingAreNamed) {
  const Collected collected = collect_with("--mode segv");
  EXPECT_EQ(collected.made, 2);
  ASSERT_EQ(collected.failures.size(), 1u);
  EXPECT_THAT(collected.failures[0].name, HasSubstr("copy/small-"));
  EXPECT_THAT(collected.failures[0].message, HasSubstr("SIGSEGV"));
  EXPECT_THAT(read(collected.failures[0].log), HasSubstr("about to segv"));
  const RunResult result = run_with();
  EXPECT_EQ(case_of(result, 2).ending, Ending::kMissing);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
}

TEST_F(RunTest, AGoldenThatDoesNotRepeatIsNoYardstick) {
  collect_with("--mode random");
  const RunResult result = run_with();
  EXPECT_NE(case_of(result, 2).verdict, Verdict::kMatch);
  bool named = false;
  for (const Check& check : case_of(result, 2).checks)
    named |=
        check.name == "again.golden" && check.verdict == Verdict::kIncomplete;
  EXPECT_TRUE(named);
}

TEST_F(RunTest, AnOutputThatDoesNotRepeatIsAMismatch) {
  use(std::string(kCopySpec) + "standard: exact\n");
  collect_with();
  const RunResult result = run_with("--mode random");
  bool named = false;
  for (const Check& check : case_of(result, 2).checks)
    named |= check.name == "again.x" && check.verdict == Verdict::kMismatch;
  EXPECT_TRUE(named);
}

// 2^32 + 1 is not 1, and a worker that says which names of the API it has may
// have none of them.
TEST(Hello, IsTakenAsItIs) {
  const auto hello = [](const std::string& module) {
    return parse_hello(
        R"({"type": "hello", "protocol": 1, "implementation": "w",)"
        R"( "version": "1", "device": "cpu", "modules": {"copy": )" +
        module + "}}");
  };
  EXPECT_THROW(hello(R"({"adapter": 4294967297})"), Error);
  EXPECT_THROW(hello(R"({"adapter": -1})"), Error);
  EXPECT_THROW(hello(R"({"adapter": 1, "api": {}})"), Error);
  EXPECT_THROW(hello(R"({"adapter": 1, "api": [3]})"), Error);
  const Spec spec = parse_spec(kCopySpec, "specs/copy.yaml");
  const auto exports = [&](const std::string& module) {
    return judge_exports(spec, Tier::kSmall, hello(module));
  };
  EXPECT_FALSE(exports(R"({"adapter": 1})"));
  ASSERT_TRUE(exports(R"({"adapter": 1, "api": []})"));
  EXPECT_EQ(exports(R"({"adapter": 1, "api": []})")->verdict,
            Verdict::kMismatch);
  EXPECT_EQ(exports(R"({"adapter": 1, "api": ["copy"]})")->verdict,
            Verdict::kMatch);
}

TEST(Answer, HasNoMoreMemoryThanThereIs) {
  const auto answer = [](const std::string& peak) {
    return parse_answer(
        R"({"type": "result", "id": 1, "status": "ok", "peak_bytes": )" + peak +
        "}");
  };
  EXPECT_EQ(answer("4096").peak_bytes, 4096);
  EXPECT_THROW(answer("1e300"), Error);
  EXPECT_THROW(answer("-1"), Error);
}

}  // namespace
}  // namespace assay::conform
