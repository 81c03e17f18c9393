// The program from outside: exit codes, files, signals, ranks.
#include "tests/train_gpt/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "assay/te/modules/checkpoint.h"
#include "tests/train_gpt/small_run.h"

namespace assay::train_gpt {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<nlohmann::json> parsed_log(const std::string& path) {
  std::vector<nlohmann::json> lines;
  for (const std::string& line : lines_of(read_text(path)))
    lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::vector<double> losses(const std::string& log) {
  std::vector<double> out;
  for (const auto& line : parsed_log(log)) out.push_back(line.at("loss"));
  return out;
}

TEST(TrainGptProgram, PrintsAndLogsEveryStep) {
  const ScratchFolder folder;
  const std::string log = folder.file("run.jsonl");
  const Ended ended = run_program(
      small_command({"--recipe", "mxfp8", "--steps", "5", "--log", log}));
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const std::vector<std::string> text = lines_of(ended.out);
  ASSERT_EQ(text.size(), 8u);  // what it is, heading, 5 steps, result
  EXPECT_THAT(text[0], HasSubstr("256 of 248,623 bytes of text a step, mxfp8"));
  const auto lines = parsed_log(log);
  ASSERT_EQ(lines.size(), 5u);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& line = lines[i];
    EXPECT_EQ(line.at("step"), i + 1);
    EXPECT_EQ(line.at("tokens"), 256);
    EXPECT_GT(line.at("loss"), 0);
    EXPECT_GT(line.at("grad_norm"), 0);
    EXPECT_GT(line.at("lr"), 0);
    EXPECT_GT(line.at("seconds"), 0);
    EXPECT_GT(line.at("tokens_per_second"), 0);
    EXPECT_GT(line.at("peak_rss_bytes"), line.at("saved_bytes"));
    for (const char* role : {"input", "weight", "grad_output"}) {
      const auto& counts = line.at("quantized").at(role);
      EXPECT_GT(
          counts.at("elements").get<int>() + counts.at("unseen").get<int>(), 0);
      EXPECT_LE(counts.at("saturated"), counts.at("elements"));
      EXPECT_LE(counts.at("underflowed"), counts.at("elements"));
    }
    EXPECT_THAT(text[i + 2], HasSubstr(std::to_string(i + 1) + "/5"));
  }
}

TEST(TrainGptProgram, IsQuietWhereAsked) {
  const Ended ended =
      run_program(small_command({"--steps", "2", "--warmup", "1", "--quiet"}));
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out,
              testing::MatchesRegex("loss [0-9]+\\.[0-9]+ after 2 steps\n"));
}

TEST(TrainGptProgram, RefusesWithOneLineAndACode) {
  const ScratchFolder folder;
  const std::vector<std::tuple<std::vector<std::string>, int, std::string>>
      cases = {
          {{"--layer", "2"}, 2, "did you mean --layers?"},
          {{"--recipe", "fp9"}, 2, "fp9 not in"},
          {{"--tp", "2"}, 2, "--tp: 2, but 1 processes"},
          {{"--recipe", "mxfp8", "--seq", "10", "--batch", "1"},
           2,
           "expected a multiple of 32"},
          {{"--text", "/nowhere"}, 3, "/nowhere"},
          {{"--resume", "/nowhere"}, 3, "/nowhere"},
          {{"--log", "/nowhere/log"}, 3, "/nowhere/log"},
          {{"--resume", ASSAY_SOURCE_DIR "/README.md"}, 3, "README.md"},
          {{"--steps", "1", "--warmup", "0", "--save", "/nowhere/gpt.ckpt"},
           3,
           "/nowhere"},
      };
  for (const auto& [arguments, code, message] : cases) {
    const Ended ended = run_program(small_command(arguments));
    EXPECT_EQ(ended.code, code) << message << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("train_gpt: "));
    EXPECT_THAT(ended.err, HasSubstr(message));
    EXPECT_EQ(lines_of(ended.err).size(), 1u) << ended.err;
  }
}

TEST(TrainGptProgram, PrintsHelp) {
  const Ended ended = run_program({TRAIN_GPT, "--help"});
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, HasSubstr("Examples:"));
}

// A learning rate beyond all measure: weights, then activations overflow.
TEST(TrainGptProgram, StopsAtANumberThatIsNotFinite) {
  const ScratchFolder folder;
  const std::string file = folder.file("gpt.ckpt");
  const std::vector<std::string> options = {"--lr",   "1e3", "--warmup", "0",
                                            "--clip", "0",   "--save",   file};
  const Ended ended = run_program(small_command(options));
  ASSERT_EQ(ended.code, 1) << ended.out << ended.err;
  const std::vector<std::string> lines = lines_of(ended.err);
  ASSERT_EQ(lines.size(), 2u) << ended.err;
  EXPECT_THAT(lines[0], testing::MatchesRegex(
                            "train_gpt: step [0-9]+: [a-z_0-9.]+: .* at .*, "
                            "expected finite values"));
  EXPECT_THAT(lines[1], HasSubstr("is in " + file));
  EXPECT_TRUE(folder.holds_only({"gpt.ckpt"}));
  // What was kept is the last good step: it fails again at the same place.
  std::vector<std::string> again = options;
  again.insert(again.end(), {"--resume", file});
  const Ended resumed = run_program(small_command(again));
  EXPECT_EQ(resumed.code, 1);
  ASSERT_FALSE(lines_of(resumed.err).empty());
  EXPECT_EQ(lines_of(resumed.err)[0], lines[0]);
}

// Waits until the log has so many lines.
void wait_for_lines(Program& program, const std::string& log,
                    std::size_t count) {
  while (program.running() && lines_of(read_text(log)).size() < count)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(TrainGptInterrupt, FinishesTheStepAndGoesOnWithTheSameBits) {
  const ScratchFolder folder;
  const auto run_with = [&](const char* log, const char* file) {
    return small_command({"--recipe", "nvfp4", "--dropout", "0.1", "--steps",
                          "60", "--log", folder.file(log), "--save",
                          folder.file(file)});
  };
  ASSERT_EQ(run_program(run_with("whole.jsonl", "whole.ckpt")).code, 0);

  for (const int number : {SIGINT, SIGTERM}) {
    const std::string log = number == SIGINT ? "int" : "term";
    const std::string file = log + ".ckpt";
    Program program(run_with(log.c_str(), file.c_str()));
    wait_for_lines(program, folder.file(log.c_str()), 3);
    program.signal(number);
    const Ended stopped = program.wait();
    ASSERT_EQ(stopped.code, 130) << stopped.out << stopped.err;
    const std::size_t done = losses(folder.file(log.c_str())).size();
    EXPECT_LT(done, 60u);
    EXPECT_THAT(stopped.out, HasSubstr("stopped after step " +
                                       std::to_string(done) + " of 60"));
    // The command that it says goes on.
    const std::string marker = "to go on: train_gpt ";
    const std::size_t at = stopped.out.find(marker);
    ASSERT_NE(at, std::string::npos) << stopped.out;
    const std::string command =
        std::string(TRAIN_GPT) + " " + stopped.out.substr(at + marker.size());
    const Ended resumed = run_program({"sh", "-c", command});
    ASSERT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(losses(folder.file(log.c_str())),
              losses(folder.file("whole.jsonl")));
    EXPECT_EQ(read_text(folder.file(file.c_str())),
              read_text(folder.file("whole.ckpt")));
  }
  EXPECT_TRUE(folder.holds_only(
      {"whole.jsonl", "whole.ckpt", "int", "int.ckpt", "term", "term.ckpt"}));
}

TEST(TrainGptInterrupt, SaysWhereNothingIsKept) {
  const ScratchFolder folder;
  const std::string log = folder.file("log");
  Program program(small_command({"--steps", "100000", "--log", log}));
  wait_for_lines(program, log, 1);
  program.signal(SIGINT);
  const Ended stopped = program.wait();
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.out, HasSubstr("nothing is kept: --save FILE"));
}

TEST(TrainGptInterrupt, KeepsWhatSaveEveryWrote) {
  const ScratchFolder folder;
  const std::string file = folder.file("gpt.ckpt"), log = folder.file("log");
  Program program(small_command({"--steps", "100000", "--log", log, "--save",
                                 file, "--save-every", "2"}));
  wait_for_lines(program, log, 4);
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait().code, -1);
  Trainer trainer(small_options({"--steps", "100000"}), nullptr);
  trainer.load(file);
  EXPECT_GE(trainer.steps_done(), 2);
  EXPECT_EQ(trainer.steps_done() % 2, 0);
}

std::vector<double> losses_of_ranks(const ScratchFolder& folder, int ranks,
                                    std::vector<std::string> options) {
  const std::string log = folder.file("log");
  std::filesystem::remove(log);
  options.insert(options.end(),
                 {"--steps", "6", "--log", log, "--threads", "1"});
  std::vector<std::string> command = small_command(options);
  if (ranks > 1) {
    command.insert(command.begin(), {ASSAY_MPIRUN, std::to_string(ranks)});
    command.insert(command.end(), {"--tp", std::to_string(ranks)});
  }
  const Ended ended = run_program(command);
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
  return losses(log);
}

// Weights are drawn whole before they are cut, so that losses differ by sums in
// another order: fp32's by a few ulp that grow with the steps, bf16's by
// roundings.
TEST(TrainGptRanks, LossesAreThoseOfOneRank) {
  const ScratchFolder folder;
  for (const auto& [recipe, relative] :
       {std::pair{"fp32", 1e-5}, std::pair{"bf16", 5e-3}}) {
    const auto one = losses_of_ranks(folder, 1, {"--recipe", recipe});
    ASSERT_EQ(one.size(), 6u);
    for (const bool sequence : {false, true}) {
      std::vector<std::string> options = {"--recipe", recipe};
      if (sequence) options.push_back("--sp");
      const auto two = losses_of_ranks(folder, 2, options);
      ASSERT_EQ(two.size(), one.size());
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_NEAR(two[i], one[i], relative * one[i])
            << recipe << (sequence ? " sp" : "") << " step " << i + 1;
    }
  }
}

// Experts on ranks compute what they compute on one; the balancing loss is of
// each rank's tokens, so that later steps differ a little.
TEST(TrainGptRanks, ExpertsAreSpreadOverThem) {
  const ScratchFolder folder;
  const std::vector<std::string> options = {"--recipe", "fp32", "--experts",
                                            "4"};
  const auto one = losses_of_ranks(folder, 1, options);
  std::vector<std::string> cut = options;
  cut.push_back("--sp");
  const auto two = losses_of_ranks(folder, 2, cut);
  ASSERT_EQ(one.size(), 6u);
  ASSERT_EQ(two.size(), 6u);
  EXPECT_NEAR(two[0], one[0], 1e-6 * one[0]);
  for (std::size_t i = 1; i < one.size(); ++i)
    EXPECT_NEAR(two[i], one[i], 2e-3 * one[i]) << "step " << i + 1;
}

TEST(TrainGptRanks, RecipesRunOnThem) {
  const ScratchFolder folder;
  for (const char* recipe : {"delayed", "current", "block", "mxfp8", "nvfp4"}) {
    const auto one = losses_of_ranks(folder, 1, {"--recipe", recipe});
    const auto two = losses_of_ranks(folder, 2, {"--recipe", recipe});
    ASSERT_EQ(one.size(), 6u);
    ASSERT_EQ(two.size(), 6u);
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(two[i], one[i], 0.02 * one[i]) << recipe;
  }
}

// mpirun passes the signal on, a second later and as SIGTERM, and has a code of
// its own for it; every rank keeps the same step. Open MPI 4 reads nothing of
// its ranks during that second: a rank that prints a line for every step of a
// millisecond fills the pipe and waits there for the end.
TEST(TrainGptRanks, StopTogether) {
  const ScratchFolder folder;
  const std::string file = folder.file("gpt.ckpt"), log = folder.file("log");
  std::vector<std::string> command =
      small_command({"--tp", "2", "--steps", "100000", "--threads", "1",
                     "--quiet", "--save", file, "--log", log});
  command.insert(command.begin(), {ASSAY_MPIRUN, "2"});
  Program program(command);
  wait_for_lines(program, log, 3);
  program.signal(SIGINT);
  const Ended stopped = program.wait();
  EXPECT_NE(stopped.code, 0);
  const std::size_t done = losses(log).size();
  EXPECT_THAT(stopped.out,
              HasSubstr("stopped after step " + std::to_string(done) + " of"));
  EXPECT_THAT(stopped.out, HasSubstr("to go on: mpirun -np 2 train_gpt"));
  for (const char* rank : {"-tp0of2", "-tp1of2"})
    EXPECT_EQ(
        te::training_state(te::load_checkpoint(file + rank).metadata).step,
        static_cast<std::int64_t>(done))
        << rank;
}

TEST(TrainGptRanks, EachKeepsItsPart) {
  const ScratchFolder folder;
  const std::string file = folder.file("gpt.ckpt");
  const auto command = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = small_command(
        {"--tp", "2", "--sp", "--steps", "4", "--quiet", "--threads", "1"});
    all.insert(all.begin(), {ASSAY_MPIRUN, "2"});
    std::ranges::copy(more, std::back_inserter(all));
    return all;
  };
  const Ended whole = run_program(command({"--save", file}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_TRUE(folder.holds_only({"gpt.ckpt-tp0of2", "gpt.ckpt-tp1of2"}));
  const Ended resumed = run_program(command({"--resume", file}));
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, HasSubstr("nothing to do: 4 of 4 steps"));
}

}  // namespace
}  // namespace assay::train_gpt
