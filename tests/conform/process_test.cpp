// Child processes: deadlines, caps, endings, what is left behind.
#include "assay/conform/process.h"

#include <dirent.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/conform/capped_log.h"
#include "assay/conform/worker_command.h"

namespace assay::conform {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Clock = Process::Clock;
using Read = Process::Read;

ProcessOptions shell(const std::string& script) {
  ProcessOptions options;
  options.arguments = {"sh", "-c", script};
  return options;
}

Clock::time_point soon() { return Clock::now() + 10s; }

int open_files() {
  int count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

TEST(Process, GivesLinesAsTheyCome) {
  Process process(shell("printf 'one\\ntwo\\n\\nthree'"));
  std::vector<std::string> lines;
  std::string line;
  while (process.read_line(line, soon()) == Read::kLine) lines.push_back(line);
  EXPECT_THAT(lines, ElementsAre("one", "two", ""));  // no end, no line
  EXPECT_EQ(process.ending(), "exit 0");
}

TEST(Process, AnswersWhatItIsAsked) {
  Process process(shell("while read -r x; do echo \"got $x\"; done"));
  std::string line;
  ASSERT_TRUE(process.write_line("a b", soon()));
  ASSERT_EQ(process.read_line(line, soon()), Read::kLine);
  EXPECT_EQ(line, "got a b");
  process.finish(10s);
  EXPECT_EQ(process.ending(), "exit 0");
}

TEST(Process, NamesHowItEnded) {
  const auto ending = [](const std::string& script) {
    Process process(shell(script));
    std::string line;
    process.read_line(line, soon());
    return process.ending();
  };
  EXPECT_EQ(ending("exit 3"), "exit 3");
  EXPECT_EQ(ending("kill -SEGV $$"), "SIGSEGV");
  EXPECT_EQ(ending("kill -KILL $$"), "SIGKILL");
  EXPECT_EQ(ending("exec 1>&-; sleep 600"), "killed");
}

TEST(Process, WaitsNoLongerThanTheDeadline) {
  Process process(shell("printf half; sleep 600"));
  std::string line;
  const auto start = Clock::now();
  EXPECT_EQ(process.read_line(line, start + 200ms), Read::kTimeout);
  EXPECT_LT(Clock::now() - start, 5s);
}

TEST(Process, RefusesALineWithoutAnEnd) {
  ProcessOptions options = shell("tr '\\0' x < /dev/zero");
  options.line_limit = 1 << 20;
  Process process(options);
  std::string line;
  EXPECT_EQ(process.read_line(line, soon()), Read::kTooLong);
}

// More than a pipe holds, to one that has ended and to one that never reads.
TEST(Process, SurvivesOneThatDoesNotRead) {
  const std::string large(1 << 20, 'x');
  Process gone(shell("exit 0"));
  std::string line;
  EXPECT_EQ(gone.read_line(line, soon()), Read::kEnd);
  EXPECT_FALSE(gone.write_line(large, soon()));
  Process deaf(shell("sleep 600"));
  EXPECT_FALSE(deaf.write_line(large, Clock::now() + 100ms));
}

TEST(Process, SeesTheMemoryOfChildrenToo) {
  ProcessOptions options = shell(
      "(head -c 200000000 /dev/zero | tail -c 190000000 | sleep 600) & "
      "sleep 600");
  options.memory_limit = 100'000'000;
  Process process(options);
  std::string line;
  EXPECT_EQ(process.read_line(line, soon()), Read::kMemory);
  EXPECT_GT(process.peak_bytes(), 100'000'000);
}

TEST(Process, KeepsItsComplaintsFromBothEnds) {
  ProcessOptions options =
      shell("echo first >&2; seq 1 20000 >&2; echo last >&2; echo done");
  options.log_limit = 2000;
  Process process(options);
  std::string line;
  ASSERT_EQ(process.read_line(line, soon()), Read::kLine);
  EXPECT_EQ(process.ending(), "exit 0");
  const std::string log = process.log().text();
  EXPECT_THAT(log, HasSubstr("first\n1\n2\n"));
  EXPECT_THAT(log, HasSubstr("bytes left out]"));
  EXPECT_THAT(log, HasSubstr("20000\nlast\n"));
  EXPECT_LT(log.size(), 2100u);
  EXPECT_EQ(process.log().last_line(), "last");
}

TEST(Process, GivesItsEnvironmentAndNoFilesOfOurs) {
  ProcessOptions options = shell("echo $GIVEN; ls /proc/self/fd | wc -l");
  options.environment["GIVEN"] = "a value";
  std::FILE* ours = std::tmpfile();
  Process process(options);
  std::string line;
  ASSERT_EQ(process.read_line(line, soon()), Read::kLine);
  EXPECT_EQ(line, "a value");
  ASSERT_EQ(process.read_line(line, soon()), Read::kLine);
  EXPECT_LE(std::stoi(line), 5);  // 0, 1, 2, the folder, a pipe of the shell
  std::fclose(ours);
}

TEST(Process, LeavesNoFilesOpenAndNoZombies) {
  const int before = open_files();
  for (int i = 0; i < 5; ++i) {
    Process process(shell("sleep 600"));
    EXPECT_THROW(Process(ProcessOptions{{"no-such-program-anywhere"}}), Error);
  }
  EXPECT_EQ(open_files(), before);
  siginfo_t info{};
  EXPECT_EQ(::waitid(P_ALL, 0, &info, WEXITED | WNOHANG), -1);  // no child
}

TEST(CappedLog, CountsWhatItLeavesOut) {
  CappedLog log(10);
  log.append("abcdefgh");
  EXPECT_EQ(log.text(), "abcdefgh");
  log.append("ij");
  EXPECT_EQ(log.text(), "abcdefghij");
  log.append("klm");
  EXPECT_EQ(log.text(), "abcde\n[3 bytes left out]\nijklm");
  for (int i = 0; i < 100; ++i) log.append("nopq\n");
  EXPECT_EQ(log.text(), "abcde\n[503 bytes left out]\nnopq\n");
  EXPECT_EQ(log.last_line(), "nopq");
  log.clear();
  EXPECT_TRUE(log.empty());
}

TEST(WorkerCommand, SplitsLikeAShell) {
  EXPECT_THAT(split_command_line("a  b\tc"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(split_command_line("'a b' \"c 'd'\" e\\ f"),
              ElementsAre("a b", "c 'd'", "e f"));
  EXPECT_THAT(split_command_line("a\"b\"'c'd \"\\\"\\\\x\\y\" ''"),
              ElementsAre("abcd", "\"\\x\\y", ""));
  EXPECT_THAT(split_command_line("$HOME `id` *"),
              ElementsAre("$HOME", "`id`", "*"));
  for (const char* bad : {"", "  ", "'a", "\"a", "a\\"})
    EXPECT_THROW(split_command_line(bad), Error) << bad;
}

TEST(WorkerCommand, NamesThisProgramForItsOwnEngine) {
  const std::string self = this_program().string();
  EXPECT_THAT(parse_worker_command("reference").arguments,
              ElementsAre(self, "worker", "--provider", "reference"));
  EXPECT_THAT(parse_worker_command("assay worker --provider cpu").arguments,
              ElementsAre(self, "worker", "--provider", "cpu"));
  // Our Python worker finds its package, others keep their own.
  const auto with = [](const char* text) {
    return parse_worker_command(text).environment;
  };
  EXPECT_EQ(with("python3 -m assay.worker --provider te --device npu"),
            with("te"));
  EXPECT_EQ(with("nice -n 5 python3 -m assay.worker").count("PYTHONPATH"), 1u);
  EXPECT_TRUE(with("python3 -m mine.worker assay.worker").empty());
  EXPECT_THAT(parse_worker_command("./assay x").arguments,
              ElementsAre("./assay", "x"));
}

TEST(WorkerCommand, StartsRanksAsTheHelloSays) {
  const WorkerCommand one = parse_worker_command("./w --device npu");
  EXPECT_THAT(for_ranks(one, 4, "self").arguments,
              ElementsAre("./w", "--device", "npu", "--ranks", "4"));
  EXPECT_THAT(for_ranks(one, 2, "mpirun").arguments,
              ElementsAre("mpirun", "-n", "2", "./w", "--device", "npu",
                          "--ranks", "2"));
  EXPECT_THROW(for_ranks(one, 2, ""), Error);
}

}  // namespace
}  // namespace assay::conform
