#include "examples/train_gpt/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace assay::train_gpt {
namespace {

TEST(TrainGptOptions, HaveDefaultsThatDependOnOthers) {
  const CommandLine line = parse_command_line({"--hidden", "128"});
  EXPECT_FALSE(line.exit_code) << line.message;
  const Options& o = line.options;
  EXPECT_EQ(o.hidden, 128);
  EXPECT_EQ(o.ffn, 512);
  EXPECT_EQ(o.kv_heads, o.heads);
  EXPECT_EQ(o.dtype(), DType::kBF16);
  EXPECT_FALSE(o.quantization());
  EXPECT_EQ(o.warmup, 20);
  EXPECT_EQ(parse_command_line({"--steps=50"}).options.warmup, 5);
}

TEST(TrainGptOptions, NameTheRecipes) {
  const std::vector<std::pair<std::string, std::string>> recipes = {
      {"delayed", "DelayedScaling"},
      {"current", "Float8CurrentScaling"},
      {"block", "Float8BlockScaling"},
      {"mxfp8", "MXFP8BlockScaling"},
      {"nvfp4", "NVFP4BlockScaling"}};
  for (const auto& [name, recipe] : recipes) {
    const CommandLine line = parse_command_line({"--recipe", name});
    ASSERT_FALSE(line.exit_code) << line.message;
    ASSERT_TRUE(line.options.quantization());
    EXPECT_EQ(te::recipe_name(*line.options.quantization()), recipe);
    EXPECT_EQ(line.options.dtype(), DType::kBF16);
  }
  EXPECT_EQ(parse_command_line({"--recipe", "fp32"}).options.dtype(),
            DType::kF32);
}

TEST(TrainGptOptions, RefuseInOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--layer", "2"}, "--layer: no such option, did you mean --layers?"},
      {{"--qqq"}, "--qqq: no such option"},
      {{"stray"}, "stray"},
      {{"--layers"}, "--layers"},
      {{"--layers", "0"}, "--layers"},
      {{"--layers", "two"}, "--layers"},
      {{"--lr", "-1"}, "--lr"},
      {{"--dropout", "1"}, "--dropout"},
      {{"--recipe", "fp9"}, "fp9 not in {fp32,bf16,delayed"},
      {{"--recompute", "some"}, "some not in {none,selective,full}"},
      {{"--heads", "3"}, "--heads: 3, expected a divisor of --hidden (256)"},
      {{"--heads", "256"},
       "--heads: 256 heads of 1, expected heads of even width"},
      {{"--kv-heads", "3"}, "--kv-heads: 3, expected a divisor of --heads (4)"},
      {{"--microbatches", "3"},
       "--microbatches: 3, expected a divisor of --batch (8)"},
      {{"--tp", "3"}, "--tp: 3, expected a divisor of --kv-heads (4)"},
      {{"--experts", "2", "--topk", "3"},
       "--topk: 3, expected at most --experts (2)"},
      {{"--experts", "4", "--tp", "2"},
       "--experts: given with --tp, expected --sp with them"},
      {{"--experts", "3", "--tp", "2", "--sp"},
       "--tp: 2, expected a divisor of --experts (3)"},
      {{"--warmup", "300"}, "--warmup: 300, expected less than --steps (300)"},
      {{"--save-every", "5"}, "--save-every: given, expected --save with it"},
  };
  for (const auto& [arguments, message] : cases) {
    const CommandLine line = parse_command_line(arguments);
    EXPECT_EQ(line.exit_code, 2) << message;
    EXPECT_THAT(line.message, testing::HasSubstr(message));
    EXPECT_THAT(line.message, testing::Not(testing::HasSubstr("\n")));
  }
}

TEST(TrainGptOptions, HelpNamesEveryOptionAndShowsExamples) {
  const CommandLine line = parse_command_line({"--help"});
  EXPECT_EQ(line.exit_code, 0);
  for (const char* name :
       {"--recipe",    "--layers",       "--hidden",
        "--heads",     "--kv-heads",     "--ffn",
        "--experts",   "--topk",         "--seq",
        "--batch",     "--microbatches", "--steps",
        "--lr",        "--warmup",       "--tp",
        "--sp",        "--seed",         "--resume",
        "--save",      "--save-every",   "--log",
        "--recompute", "--clip",         "--dropout",
        "--quiet",     "Examples:",      "mpirun -np 2 train_gpt --tp 2"})
    EXPECT_THAT(line.message, testing::HasSubstr(name));
}

TEST(TrainGptOptions, SayHowToGoOn) {
  EXPECT_EQ(command_to_go_on({"--save", "a b.ckpt", "--resume", "old.ckpt",
                              "--resume=older", "--lr", "1e-3"},
                             1),
            "train_gpt --save 'a b.ckpt' --lr 1e-3");
  EXPECT_EQ(command_to_go_on({"--tp", "2"}, 2),
            "mpirun -np 2 train_gpt --tp 2");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

// What decides about the bits of a run is written into its checkpoints.
TEST(TrainGptOptions, TellWhatARunDependsOn) {
  const auto a = parse_command_line({"--log", "x"}).options.signature();
  EXPECT_EQ(a, parse_command_line({"--quiet"}).options.signature());
  const auto b = parse_command_line({"--seed", "2"}).options.signature();
  EXPECT_EQ(a.size(), b.size());
  int different = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) {
      EXPECT_EQ(a[i].first, "--seed");
      EXPECT_EQ(b[i].second, "2");
      ++different;
    }
  EXPECT_EQ(different, 1);
}

}  // namespace
}  // namespace assay::train_gpt
