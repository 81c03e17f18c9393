// Verdicts of a diff, and what it names first.
#include "assay/env/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "assay/base/error.h"
#include "assay/env/diff_text.h"
#include "assay/env/script.h"
#include "assay/env/value_equal.h"

namespace assay::env {
namespace {

using testing::HasSubstr;

Snapshot with(Section section, std::map<std::string, Value> values) {
  Snapshot made;
  made.path = "a.json";
  made[section].collected = true;
  made[section].scope = Scope::kListed;
  made[section].values = std::move(values);
  return made;
}

Value text(const std::string& value) { return {Kind::kText, value, ""}; }
Value flag() { return {Kind::kFlag, "given", ""}; }

Comparison diff(const Snapshot& a, const Snapshot& b,
                const DiffOptions& options = {}) {
  return diff_snapshots(a, b, RankTable::shipped(), options);
}

const Row* row(const Comparison& result, const std::string& name) {
  for (const Row& each : result.rows)
    if (each.name() == name) return &each;
  return nullptr;
}

// Of the only row.
Verdict verdict(Section section, const std::string& key,
                const std::optional<Value>& golden,
                const std::optional<Value>& target) {
  std::map<std::string, Value> a, b;
  if (golden) a[key] = *golden;
  if (target) b[key] = *target;
  const Comparison result = diff(with(section, a), with(section, b));
  EXPECT_EQ(result.rows.size(), 1U);
  return result.rows.at(0).verdict;
}

TEST(ValueEqual, OnlyWhatIsCertain) {
  const auto same = [](const Value& a, const Value& b,
                       Section section = Section::kHyperparameters) {
    return compare_values(section, a, b) == Sameness::kYes;
  };
  const Value yes{Kind::kBool, "true", ""}, no{Kind::kBool, "false", ""};
  const Value null{Kind::kNull, "null", ""}, one{Kind::kNumber, "1", ""};
  EXPECT_TRUE(same(text("1e-4"), text("0.0001")));
  EXPECT_TRUE(same(text("1e-4"), {Kind::kNumber, "0.00010", ""}));
  EXPECT_TRUE(same(text("1"), text("1.0")));
  EXPECT_TRUE(same(text("007"), text("7")));
  EXPECT_TRUE(same(text("0.9 0.95"), text("0.90 0.950")));
  EXPECT_TRUE(same(text("True"), yes));
  EXPECT_TRUE(same(flag(), yes));
  EXPECT_TRUE(same(flag(), text("true")));
  EXPECT_TRUE(same(null, null));
  EXPECT_FALSE(same(flag(), no));
  EXPECT_FALSE(same(flag(), one));
  EXPECT_FALSE(same(yes, one));
  EXPECT_FALSE(same(yes, text("yes")));
  EXPECT_FALSE(same(null, text("none")));
  EXPECT_FALSE(same(text("9007199254740992"), text("9007199254740993")));
  EXPECT_FALSE(same(text("nan"), text("NaN")));
  EXPECT_FALSE(same(text("0.9 0.95"), text("0.9")));
  EXPECT_FALSE(same(text("2.1"), text("2.10"), Section::kLibraries));
  EXPECT_FALSE(same(text("1"), text("1.0"), Section::kEnvironment));
  const Value unknown{Kind::kUnknown, "$X", ""};
  EXPECT_EQ(compare_values(Section::kHyperparameters, unknown, unknown),
            Sameness::kUnknown);
}

TEST(Diff, VerdictsOfOneKey) {
  using enum Section;
  EXPECT_EQ(verdict(kSwitches, "a", text("1"), text("1")), Verdict::kMatch);
  EXPECT_EQ(verdict(kSwitches, "a", text("1"), text("2")), Verdict::kMismatch);
  EXPECT_EQ(verdict(kSwitches, "a", text("1"), {}), Verdict::kIncomplete);
  EXPECT_EQ(verdict(kHyperparameters, "a", text("1"), {}),
            Verdict::kIncomplete);
  EXPECT_EQ(verdict(kHyperparameters, "a", {}, flag()), Verdict::kMismatch);
  const Value unknown{Kind::kUnknown, "$X", ""};
  EXPECT_EQ(verdict(kHyperparameters, "a", unknown, unknown),
            Verdict::kIncomplete);
  EXPECT_EQ(verdict(kEnvironment, "NCCL_ALGO", text("Ring"), {}),
            Verdict::kMismatch);
  EXPECT_EQ(verdict(kEnvironment, "MY_OWN", text("Ring"), {}),
            Verdict::kIncomplete);
  EXPECT_EQ(verdict(kLibraries, "numpy", text("2.0"), {}), Verdict::kMismatch);
  EXPECT_EQ(verdict(kDevice, "cuda", text("12"), {}), Verdict::kIncomplete);
  EXPECT_EQ(verdict(kSystem, "cpu.model", text("x"), text("y")),
            Verdict::kEmpty);
  EXPECT_EQ(verdict(kHyperparameters, "save", text("/a"), {}), Verdict::kEmpty);
  EXPECT_EQ(verdict(kHyperparameters, "distributed_backend", text("nccl"),
                    text("hccl")),
            Verdict::kEmpty);
  EXPECT_EQ(verdict(kHyperparameters, "distributed_backend", text("nccl"),
                    text("gloo")),
            Verdict::kMismatch);
}

TEST(Diff, WhatDiffersAsExpectedIsNoEvidence) {
  const Comparison result =
      diff(with(Section::kSystem, {{"memory", text("1")}}),
           with(Section::kSystem, {{"memory", text("2")}}));
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
}

// torch sets it by itself, to a folder that has the user's name.
TEST(Diff, AFolderOfCompiledKernelsIsNoSetting) {
  EXPECT_EQ(verdict(Section::kEnvironment, "TORCHINDUCTOR_CACHE_DIR",
                    text("/tmp/torchinductor_a"), text("/tmp/torchinductor_b")),
            Verdict::kEmpty);
  EXPECT_EQ(verdict(Section::kEnvironment, "TORCHINDUCTOR_MAX_AUTOTUNE",
                    text("0"), text("1")),
            Verdict::kMismatch);
}

TEST(Diff, DefaultsOfAKnownProgram) {
  const auto options = [](std::map<std::string, Value> values) {
    values["program"] = text("pretrain_gpt.py");
    return with(Section::kHyperparameters, std::move(values));
  };
  const Comparison same =
      diff(options({{"adam_eps", text("0.00000001")}}), options({}));
  EXPECT_EQ(row(same, "hyperparameters.adam_eps")->verdict, Verdict::kMatch);
  const Comparison other =
      diff(options({{"hidden_dropout", text("0.0")}}), options({}));
  const Row* differs = row(other, "hyperparameters.hidden_dropout");
  EXPECT_EQ(differs->verdict, Verdict::kMismatch);
  EXPECT_EQ(differs->reasons[0].text,
            "the target does not set it: 0.1, the default of Megatron-LM");
  const Comparison unknown =
      diff(options({{"moe_aux", text("1")}}), options({}));
  EXPECT_EQ(row(unknown, "hyperparameters.moe_aux")->verdict,
            Verdict::kIncomplete);
}

TEST(Diff, ASectionThatOneSideLacksIsIncomplete) {
  Snapshot golden = with(Section::kSwitches, {{"a", text("1")}});
  golden[Section::kSystem].collected = true;
  golden[Section::kSystem].values = {{"x", text("1")}};
  Snapshot target = with(Section::kSystem, {{"x", text("1")}});
  target[Section::kSwitches].missing = {"torch is not installed"};
  const Comparison result = diff(golden, target);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  const Row* gap = row(result, "switches.collected");
  ASSERT_NE(gap, nullptr);
  EXPECT_EQ(gap->reasons[0].text,
            "switches not collected in the target: torch is not installed");
  // Neither side has it: nothing was asked for.
  EXPECT_EQ(result.rows.size(), 2U);
}

TEST(Diff, WhatWasNotReadIsIncomplete) {
  Snapshot both = with(Section::kEnvironment, {{"NCCL_ALGO", text("Ring")}});
  both[Section::kEnvironment].missing = {
      "run.sh:1: reads a.sh, which was not "
      "read"};
  const Comparison result = diff(both, both);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  DiffOptions options;
  options.ignore = {"environment.left_out"};
  EXPECT_EQ(diff(both, both, options).verdict, Verdict::kMatch);
}

TEST(Diff, NothingInCommonIsNoMatch) {
  EXPECT_EQ(diff({}, {}).verdict, Verdict::kIncomplete);
  DiffOptions only;
  only.only = {Section::kWeights};
  const Snapshot one = with(Section::kSystem, {{"x", text("1")}});
  EXPECT_EQ(diff(one, one, only).verdict, Verdict::kIncomplete);
  EXPECT_EQ(diff(one, one).verdict, Verdict::kMatch);
}

TEST(Diff, VendorsHaveTheirOwnNames) {
  const Snapshot cuda = with(
      Section::kEnvironment,
      {{"CUDA_VISIBLE_DEVICES", text("0,1")}, {"NCCL_ALGO", text("Ring")}});
  const Snapshot npu = with(
      Section::kEnvironment,
      {{"ASCEND_RT_VISIBLE_DEVICES", text("0,1")}, {"HCCL_ALGO", text("x")}});
  EXPECT_EQ(vendor_of(RankTable::shipped(), cuda), "cuda");
  EXPECT_EQ(vendor_of(RankTable::shipped(), npu), "npu");
  const Comparison result = diff(cuda, npu);
  EXPECT_EQ(row(result, "environment.visible devices")->verdict,
            Verdict::kMatch);
  EXPECT_EQ(row(result, "environment.NCCL_ALGO")->verdict, Verdict::kEmpty);
  EXPECT_EQ(row(result, "environment.HCCL_ALGO")->verdict, Verdict::kEmpty);
  // NCCL's variable on the side that does not run on CUDA is none of those.
  Snapshot odd = npu;
  odd[Section::kEnvironment].values["NCCL_PROTO"] = text("x");
  EXPECT_EQ(row(diff(cuda, odd), "environment.NCCL_PROTO")->verdict,
            Verdict::kMismatch);
  // The same variable on one side alone of one vendor is a difference.
  const Snapshot plain =
      with(Section::kEnvironment, {{"CUDA_VISIBLE_DEVICES", text("0,1")}});
  EXPECT_EQ(row(diff(cuda, plain), "environment.NCCL_ALGO")->verdict,
            Verdict::kMismatch);
}

// Whatever else differs, the worse one is first.
TEST(Diff, OrderOfWhatBreaksAlignment) {
  struct Setting {
    Section section;
    const char* key;
  };
  using enum Section;
  const std::vector<Setting> worst_first = {
      {kSwitches, "torch.backends.cuda.matmul.allow_tf32"},
      {kHyperparameters, "bf16"},
      {kHyperparameters, "use_flash_attn"},
      {kHyperparameters, "use_fused_rmsnorm"},
      {kHyperparameters, "seed"},
      {kHyperparameters, "hidden_dropout"},
      {kHyperparameters, "num_layers"},
      {kHyperparameters, "micro_batch_size"},
      {kHyperparameters, "tensor_model_parallel_size"},
      {kHyperparameters, "adam_eps"},
      {kHyperparameters, "lr"},
      {kHyperparameters, "load"},
      {kHyperparameters, "data_path"},
      {kSwitches, "torch.backends.cudnn.deterministic"},
      {kEnvironment, "NCCL_ALGO"},
      {kHyperparameters, "initial_loss_scale"},
      {kHyperparameters, "seq_length"},
      {kLibraries, "torch"},
      {kDevice, "nvidia.driver"},
      {kSystem, "git.commit"},
      {kHyperparameters, "something_else"}};
  Snapshot golden, target;
  // From the least to the worst, so that the order is not that of insertion.
  for (auto at = worst_first.rbegin(); at != worst_first.rend(); ++at) {
    golden[at->section].collected = target[at->section].collected = true;
    golden[at->section].values[at->key] = text("x");
    target[at->section].values[at->key] = text("y");
  }
  const Comparison result = diff(golden, target);
  std::vector<std::string> expected, found;
  for (const Setting& each : worst_first)
    expected.push_back(std::string(to_string(each.section)) + "." + each.key);
  for (const Row& each : result.rows) found.push_back(each.name());
  EXPECT_EQ(found, expected);
  EXPECT_EQ(result.first_divergence->name, expected[0]);
}

TEST(Diff, EveryGroupOfTheTableSaysWhy) {
  EXPECT_GE(RankTable::shipped().groups().size(), 20U);
  for (const RankGroup& group : RankTable::shipped().groups())
    EXPECT_FALSE(group.why.empty());
}

TensorPrint print(const std::string& name, const std::string& dtype,
                  const std::string& hash,
                  std::map<std::string, std::string> as = {}) {
  TensorPrint made;
  made.name = name;
  made.dtype = dtype;
  made.shape = {2};
  made.hash = hash;
  made.as = std::move(as);
  return made;
}

TEST(Diff, WeightsSayWhatIsNearlyTheSame) {
  Snapshot golden, target;
  golden[Section::kWeights].collected = target[Section::kWeights].collected =
      true;
  golden.weights = {
      print("same", "float32", "1"),
      print("dtype", "float32", "2", {{"values", "v"}}),
      print("round", "float32", "3", {{"values", "w"}, {"bfloat16", "r"}}),
      print("order", "float32", "4", {{"elements", "e"}}),
      print("gone", "float32", "5")};
  target.weights = {print("same", "float32", "1"),
                    print("dtype", "bfloat16", "2b", {{"values", "v"}}),
                    print("round", "bfloat16", "3b", {{"values", "r"}}),
                    print("order", "float32", "4b", {{"elements", "e"}}),
                    print("new", "float32", "6")};
  const Comparison result = diff(golden, target);
  EXPECT_EQ(row(result, "weights.same")->verdict, Verdict::kMatch);
  EXPECT_EQ(row(result, "weights.dtype")->cause,
            "the same values in another dtype");
  EXPECT_EQ(row(result, "weights.round")->cause,
            "the golden's values rounded to bfloat16");
  EXPECT_THAT(row(result, "weights.order")->cause,
              HasSubstr("the same elements in another order"));
  EXPECT_EQ(row(result, "weights.gone")->verdict, Verdict::kIncomplete);
  EXPECT_EQ(row(result, "weights.new")->verdict, Verdict::kIncomplete);
  target.weights[0].placement = "Shard(0), rank 0 of 2";
  EXPECT_EQ(row(diff(golden, target), "weights.same")->verdict,
            Verdict::kIncomplete);
  target.weights[0] = print("same", "float32", "");
  EXPECT_EQ(row(diff(golden, target), "weights.same")->verdict,
            Verdict::kIncomplete);
}

TEST(Diff, BatchesInAnotherOrder) {
  Snapshot golden, target;
  golden.batches = {{{print("x", "int64", "1")}}, {{print("x", "int64", "2")}}};
  target.batches = {{{print("x", "int64", "2")}}, {{print("x", "int64", "1")}}};
  const Comparison result = diff(golden, target);
  EXPECT_EQ(row(result, "data.batch0.x")->cause,
            "another order of batches: this is the golden's batch 1");
  EXPECT_EQ(result.verdict, Verdict::kMismatch);
  target.batches = {golden.batches[0]};
  EXPECT_EQ(diff(golden, target).verdict, Verdict::kIncomplete);
}

Snapshot drawing(std::vector<Draw> draws, const std::string& hash) {
  Snapshot made;
  made[Section::kRandom].collected = true;
  made.draw_count = static_cast<std::int64_t>(draws.size());
  made.draws = std::move(draws);
  made.draw_hash = hash;
  made.stacks = {{"t.py:3 in main"}};
  return made;
}

TEST(Diff, TheFirstCallThatDrawsDifferently) {
  const Snapshot golden =
      drawing({{"torch.randn", "2", "a", 0}, {"torch.rand", "3", "b", 0}}, "1");
  const Snapshot calls =
      drawing({{"torch.randn", "2", "a", 0}, {"torch.rand", "4", "b", 0}}, "2");
  const Snapshot numbers =
      drawing({{"torch.randn", "2", "a", 0}, {"torch.rand", "3", "c", 0}}, "1");
  EXPECT_EQ(diff(golden, golden).verdict, Verdict::kMatch);
  EXPECT_EQ(row(diff(golden, calls), "random.calls")->reasons[0].text,
            "call 1 is the first that differs: torch.rand(3) at t.py:3 in main "
            "against torch.rand(4) at t.py:3 in main");
  const Comparison other = diff(golden, numbers);
  EXPECT_EQ(row(other, "random.calls")->verdict, Verdict::kMatch);
  EXPECT_THAT(row(other, "random.numbers")->reasons[0].text,
              HasSubstr("call 1 gave other numbers: torch.rand(3)"));
  Snapshot device = golden;
  device.draws[1].result.clear();
  EXPECT_EQ(row(diff(golden, device), "random.numbers")->verdict,
            Verdict::kIncomplete);
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

Snapshot of_script(const std::string& name) {
  const ScriptFacts facts = parse_script(
      file_text(std::string(ASSAY_SOURCE_DIR) + "/examples/env/" + name), name);
  Snapshot made;
  made.path = name;
  auto& options = made[Section::kHyperparameters];
  options.collected = true;
  options.values = facts.hyperparameters;
  auto& environment = made[Section::kEnvironment];
  environment.collected = true;
  environment.values = facts.environment;
  environment.missing = facts.notes;
  return made;
}

TEST(DiffText, TheScriptsOfTheExampleAsInTheGoldenFile) {
  const Comparison result =
      diff(of_script("pretrain_gpt_cuda.sh"), of_script("pretrain_gpt_npu.sh"));
  DiffTextOptions options;
  options.columns = 100;
  EXPECT_EQ(
      render_diff(result, options),
      file_text(std::string(ASSAY_SOURCE_DIR) + "/tests/data/env/scripts.txt"));
}

TEST(DiffText, NamesOfFilesAreEscaped) {
  const Comparison result =
      diff(with(Section::kSwitches, {{"\x1b[31mred", text("\x1b]0;a")}}),
           with(Section::kSwitches, {{"\x1b[31mred", text("b")}}));
  for (const bool all : {false, true}) {
    DiffTextOptions options;
    options.all = all;
    EXPECT_EQ(render_diff(result, options).find('\x1b'), std::string::npos);
  }
}

TEST(DiffText, OneLine) {
  DiffTextOptions options;
  options.quiet = true;
  const Snapshot one = with(Section::kSystem, {{"x", text("1")}});
  EXPECT_EQ(render_diff(diff(one, one), options),
            "match   same 1   differ 0   unknown 0   expected 0\n");
}

TEST(Diff, TwoPrintsOfOneNameAreTwo) {
  const auto snapshot = [](const std::string& hashes) {
    std::string prints;
    for (const char hash : hashes)
      prints += std::string(prints.empty() ? "" : ",") +
                R"({"name": "w", "role": "p", "dtype": "float32",)" +
                R"("shape": [1], "hash": ")" + hash + "\"}";
    return parse_snapshot(R"({"format": "assay-env", "version": 1,)"
                          R"("weights": [)" +
                              prints + "], \"batches\": [[" + prints + "]]}",
                          "s");
  };
  EXPECT_EQ(diff(snapshot("ab"), snapshot("ab")).verdict, Verdict::kMatch);
  for (const char* other : {"xa", "ax", "aa", "a", "b", "aab"})
    EXPECT_NE(diff(snapshot("ab"), snapshot(other)).verdict, Verdict::kMatch)
        << other;
}

TEST(Diff, WhatNeitherSideCouldHaveIsNoMatch) {
  Snapshot one = with(Section::kLibraries, {{"numpy", text("1.0")}});
  EXPECT_EQ(diff(one, one).verdict, Verdict::kMatch);
  one[Section::kSwitches].missing = {"torch does not start"};
  const Comparison result = diff(one, one);
  EXPECT_EQ(result.verdict, Verdict::kIncomplete);
  ASSERT_NE(row(result, "switches.collected"), nullptr);
  EXPECT_THAT(row(result, "switches.collected")->reasons[0].text,
              HasSubstr("torch does not start"));
}

}  // namespace
}  // namespace assay::env
