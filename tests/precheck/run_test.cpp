// Whole runs against scripted workers: what a device that answers so gets.
#include "assay/precheck/run.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "assay/precheck/ratio/compare.h"
#include "assay/report/json.h"
#include "precheck_fixture.h"

namespace assay::precheck {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// What msprobe's comparison passes: an error of the device that is no match.
struct FalsePass {
  const char* name;
  const char* dtype;  // recorded
  const char* shape;
  Bytes device, golden;
  const char* criterion;
};

void PrintTo(const FalsePass& pass, std::ostream* out) { *out << pass.name; }

class FalsePassTest : public PrecheckTest,
                      public ::testing::WithParamInterface<FalsePass> {};

TEST_P(FalsePassTest, IsAMismatch) {
  const FalsePass& pass = GetParam();
  call("Torch.add.0", pass.device, pass.golden, pass.dtype, pass.shape);
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  const RunResult result = run();
  const Row& bad = row(result, "Torch.add.0.forward.output.0");
  EXPECT_EQ(to_string(bad.verdict), "mismatch");
  EXPECT_EQ(criterion(bad), pass.criterion);
  EXPECT_EQ(bad.origin, Origin::kBorn);
  EXPECT_EQ(to_string(row(result, "Torch.exp.0.forward.output.0").verdict),
            "match");
  ASSERT_TRUE(result.comparison.first_divergence);
  EXPECT_EQ(result.comparison.first_divergence->again,
            "assay precheck run trace --only Torch.add.0.forward");
  EXPECT_EQ(result.comparison.verdict, Verdict::kMismatch);
}

INSTANTIATE_TEST_SUITE_P(
    Msprobe, FalsePassTest,
    ::testing::Values(
        FalsePass{"InfinityOfAnotherSign", "float32", "[2]",
                  f32({2}, {1, -kInf}),
                  f64({2}, {1, std::numeric_limits<double>::infinity()}),
                  "nonfinite"},
        FalsePass{"IntegersBeyondTwoToThe53", "int64", "[1]",
                  bytes_of<std::int64_t>("I64", {1}, {(1LL << 60) + 1}),
                  bytes_of<std::int64_t>("I64", {1}, {1LL << 60}), "exact"},
        FalsePass{"ImaginaryPart", "complex64", "[1]",
                  bytes_of<float>("C64", {1}, {1, 2}),
                  bytes_of<float>("C64", {1}, {1, 3}), "element_bound"},
        FalsePass{"NoDimension", "float32", "[]", f32({}, {2}), f64({}, {1}),
                  "element_bound"},
        FalsePass{"TinyValues", "float32", "[2]", f32({2}, {1e-13F, 2e-13F}),
                  f64({2}, {2e-13, 2e-13}), "element_bound"},
        FalsePass{"TurnedShape", "float32", "[3,1]", f32({1, 3}, {1, 2, 3}),
                  f64({3, 1}, {1, 2, 3}), "shape"},
        FalsePass{"NanOnOneSide", "float32", "[2]", f32({2}, {1, kNan}),
                  f64({2}, {1, 2}), "nonfinite"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(PrecheckTest, RoundsTheGoldenToWhatWasRecorded) {
  // 1 + 2^-9 is half way between two bf16 numbers: to the even one, 1.
  call("Torch.add.0", bytes_of<std::uint16_t>("BF16", {2}, {0x3f80, 0x4000}),
       f64({2}, {1 + 0x1p-9, 2}), "bfloat16", "[2]");
  const RunResult result = run();
  const Row& one = row(result, "Torch.add.0.forward.output.0");
  EXPECT_EQ(one.verdict, Verdict::kMatch);
  EXPECT_TRUE(one.stats->bitwise_equal);
}

TEST_F(PrecheckTest, AnotherDtypeThanRecordedIsAMismatch) {
  call("Torch.add.0", bytes_of<std::uint16_t>("BF16", {1}, {0x3f80}),
       f64({1}, {1}), "float32", "[1]");
  // The golden's installation, not widened, gives what was recorded.
  given_["Torch.add"] = answer_of({{"output.0", f32({1}, {1})}});
  const RunResult result = run();
  const Row& one = row(result, "Torch.add.0.forward.output.0");
  EXPECT_EQ(one.verdict, Verdict::kMismatch);
  EXPECT_EQ(criterion(one), "dtype");
}

TEST_F(PrecheckTest, WhatNobodyCanReproduceIsNoReplay) {
  call("Torch.add.0", f32({1}, {1}), f64({1}, {1}), "bfloat16", "[1]");
  call("Torch.sub.0", f32({3}, {1, 2, 3}),
       bytes_of<std::int64_t>("I64", {3}, {1, 2, 3}), "float32", "[3]");
  given_["Torch.add"] = device_["Torch.add"];
  const RunResult result = run();
  for (const char* name :
       {"Torch.add.0.forward.output.0", "Torch.sub.0.forward.output.0"}) {
    EXPECT_EQ(row(result, name).verdict, Verdict::kIncomplete);
    EXPECT_EQ(criterion(row(result, name)), "not_replayed");
  }
}

struct Misdeed {
  const char* name;
  conform::Value device;
  const char* criterion;
  Verdict verdict;
};

void PrintTo(const Misdeed& misdeed, std::ostream* out) {
  *out << misdeed.name;
}

class HostileDeviceTest : public PrecheckTest,
                          public ::testing::WithParamInterface<Misdeed> {};

TEST_P(HostileDeviceTest, GetsItsRowAndNothingElse) {
  const Misdeed& misdeed = GetParam();
  for (const char* name : {"Torch.exp.0", "Torch.add.0", "Torch.log.0"})
    call(name, f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  device_["Torch.add"] = misdeed.device;
  options_.limits.seconds = 1;
  const RunResult result = run();
  const Row* bad = nullptr;
  for (const Row& one : result.comparison.rows) {
    if (one.verdict == Verdict::kMatch) continue;
    EXPECT_EQ(bad, nullptr) << one.name();
    bad = &one;
  }
  ASSERT_NE(bad, nullptr);
  EXPECT_THAT(bad->name(), ::testing::StartsWith("Torch.add.0."));
  EXPECT_EQ(to_string(bad->verdict), to_string(misdeed.verdict));
  EXPECT_EQ(criterion(*bad), misdeed.criterion);
  for (const char* name :
       {"Torch.exp.0.forward.output.0", "Torch.log.0.forward.output.0"})
    EXPECT_EQ(row(result, name).verdict, Verdict::kMatch);
}

conform::Value mode(const char* name) {
  return conform::Object{{"mode", name}};
}

INSTANTIATE_TEST_SUITE_P(
    Misdeeds, HostileDeviceTest,
    ::testing::Values(
        Misdeed{"Crash", mode("crash"), "crashed", Verdict::kIncomplete},
        Misdeed{"Hang", mode("hang"), "timeout", Verdict::kIncomplete},
        Misdeed{"Garbage", mode("garbage"), "garbage", Verdict::kIncomplete},
        Misdeed{"BrokenFile", mode("broken"), "garbage", Verdict::kIncomplete},
        Misdeed{"Unsupported", mode("unsupported"), "unsupported",
                Verdict::kIncomplete},
        Misdeed{"Raises",
                conform::Object{
                    {"error", conform::List{"RuntimeError", "not here"}}},
                "failed", Verdict::kMismatch},
        Misdeed{"Nothing", answer_of({}), "missing", Verdict::kMismatch},
        Misdeed{"WrongShape", answer_of({{"output.0", f32({1, 2}, {1, 2})}}),
                "shape", Verdict::kMismatch},
        Misdeed{"OneMore",
                answer_of({{"output.0", f32({2}, {1, 2})},
                           {"output.1", f32({2}, {1, 2})}}),
                "unexpected", Verdict::kMismatch},
        Misdeed{"AStrangeName",
                answer_of({{"output.0", f32({2}, {1, 2})},
                           {"\x1b[2J", f32({2}, {1, 2})}}),
                "unexpected", Verdict::kMismatch},
        Misdeed{"AGradientThatNobodyAskedFor",
                answer_of({{"output.0", f32({2}, {1, 2})},
                           {"gradient.input.0", f32({2}, {1, 2})}}),
                "unexpected", Verdict::kMismatch},
        Misdeed{
            "AValue",
            answer_of({{"output.0", f32({2}, {1, 2})}},
                      {{"values",
                        conform::Object{
                            {"output.1", conform::Object{{"type", "int"},
                                                         {"value", "3"}}}}}}),
            "unexpected", Verdict::kMismatch}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(PrecheckTest, AGoldenThatFailsHoldsNobodyToIt) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  golden_["Torch.exp"] =
      conform::Object{{"error", conform::List{"ValueError", "no"}}};
  const RunResult result = run();
  EXPECT_EQ(criterion(result.comparison.rows[0]), "golden_failed");
  EXPECT_EQ(result.comparison.verdict, Verdict::kIncomplete);
}

TEST_F(PrecheckTest, GradientsAreAskedForAndMissed) {
  op("Torch.mul.0.forward");
  tensor("input", "input.0", "float32", "[2]", true);
  tensor("input", "input.1", "float32", "[2]", true);
  tensor("output", "output.0", "float32", "[2]", true);
  op("Torch.mul.0.backward");
  tensor("input", "input.0", "float32", "[2]");
  tensor("output", "output.0", "float32", "[2]");
  tensor("output", "output.1", "float32", "[2]");
  golden_["Torch.mul"] = answer_of({{"output.0", f64({2}, {1, 2})},
                                    {"gradient.input.0", f64({2}, {1, 2})},
                                    {"gradient.input.1", f64({2}, {1, 2})}});
  device_["Torch.mul"] = answer_of(
      {{"output.0", f32({2}, {1, 2})}, {"gradient.input.0", f32({2}, {1, 3})}},
      {{"no_gradient", conform::Object{{"input.1", "it was lost"}}}});
  const RunResult result = run();
  EXPECT_EQ(row(result, "Torch.mul.0.forward.output.0").verdict,
            Verdict::kMatch);
  const Row& wrong = row(result, "Torch.mul.0.backward.output.0");
  EXPECT_EQ(criterion(wrong), "element_bound");
  const Row& lost = row(result, "Torch.mul.0.backward.output.1");
  EXPECT_EQ(criterion(lost), "missing");
  EXPECT_THAT(deciding_reason(lost)->text, HasSubstr("it was lost"));
  ASSERT_EQ(result.comparison.groups[0].ops.size(), 2u);
  EXPECT_EQ(result.comparison.groups[0].ops[1].name, "Torch.mul.0.backward");
  EXPECT_EQ(result.comparison.groups[0].ops[1].row_count, 2u);
  EXPECT_EQ(result.comparison.groups[0].stacks[0][0], "model.py:7 in forward");
}

// The trace has gradients, but says of no argument that it requires one.
TEST_F(PrecheckTest, GradientsThatNobodyAskedForAreNoMatch) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  op("Torch.exp.0.backward");
  tensor("input", "input.0", "float32", "[2]");
  tensor("output", "output.0", "float32", "[2]");
  const RunResult result = run();
  EXPECT_EQ(row(result, "Torch.exp.0.forward.output.0").verdict,
            Verdict::kMatch);
  const Row& lost = row(result, "Torch.exp.0.backward.output.0");
  EXPECT_EQ(lost.verdict, Verdict::kIncomplete);
  EXPECT_EQ(criterion(lost), "not_replayed");
  EXPECT_EQ(result.comparison.verdict, Verdict::kIncomplete);
}

// What no name of a call leads to was recorded all the same.
TEST_F(PrecheckTest, OperatorsThatAreNoCallsAreNoMatch) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  op("Torch.log.0.forward");
  trace_.replace(trace_.rfind("log.0.forward"), 13, "log.0.fwd_____");
  tensor("input", "input.0", "float32", "[2]");
  tensor("output", "output.0", "float32", "[2]");
  op("Torch.sin.3.backward");
  tensor("output", "output.0", "float32", "[2]");
  const RunResult result = run();
  EXPECT_EQ(row(result, "Torch.log.0.fwd_____").verdict, Verdict::kIncomplete);
  EXPECT_EQ(row(result, "Torch.sin.3.backward").verdict, Verdict::kIncomplete);
  EXPECT_EQ(result.comparison.verdict, Verdict::kIncomplete);
  chosen_.only = {"Torch.exp"};
  EXPECT_EQ(run().comparison.verdict, Verdict::kMatch);
}

// A shape of statistics asks for as much memory as its writer likes.
TEST_F(PrecheckTest, ShapesThatNoMachineHoldsAreNotGenerated) {
  const std::int64_t bytes =
      std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  op("Torch.sin.0.forward");
  tensor("input", "input.0", "float32", fmt::format("[{}]", bytes / 12));
  tensor("output", "output.0", "float32", "[2]");
  const RunResult result = run();
  EXPECT_EQ(row(result, "Torch.exp.0.forward.output.0").verdict,
            Verdict::kMatch);
  const Row& refused = row(result, "Torch.sin.0.forward");
  EXPECT_EQ(criterion(refused), "inputs");
  EXPECT_THAT(deciding_reason(refused)->text,
              HasSubstr("a quarter of this machine's memory"));
}

TEST_F(PrecheckTest, TheSecondCallOfANameIsReplayedToo) {
  for (int i = 0; i < 2; ++i)
    call("Torch.exp.0", f32({2}, {1, 3}), f64({2}, {1, 2}), "float32", "[2]");
  chosen_.every_call = true;
  const RunResult result = run();
  ASSERT_EQ(result.calls.size(), 2u);
  EXPECT_EQ(row(result, "Torch.exp.0#2.forward.output.0").verdict,
            Verdict::kMismatch);
}

// The golden's own installation errs as far as the device does: the golden is
// no yardstick, which is neither a mismatch nor a match.
TEST_F(PrecheckTest, TheOwnInstallationsErrorIsNoYardstick) {
  const Bytes right = f32({2}, {1, 2}), off = f32({2}, {1, 2.5F}),
              worse = f32({2}, {1, 2.75F});
  for (const char* name : {"Torch.exp.0", "Torch.cos.0", "Torch.sin.0"})
    call(name, off, f64({2}, {1, 2}), "float32", "[2]");
  given_["Torch.exp"] = answer_of({{"output.0", off}});
  given_["Torch.cos"] = answer_of({{"output.0", right}});
  given_["Torch.sin"] = answer_of({{"output.0", f32({2}, {1, 2.25F})}});
  call("Torch.tan.0", f32({2}, {kNan, 2}), f64({2}, {1, 2}), "float32", "[2]");
  given_["Torch.tan"] = answer_of({{"output.0", f32({2}, {kNan, 2})}});
  call("Torch.abs.0", worse, f64({2}, {1, 2}), "float32", "[2]");
  given_["Torch.abs"] = answer_of({{"output.0", f32({2}, {1, 3})}});
  const RunResult result = run();
  const auto verdict = [&](const std::string& name) {
    return to_string(row(result, name + ".0.forward.output.0").verdict);
  };
  EXPECT_EQ(verdict("Torch.exp"), "incomplete");  // the same
  EXPECT_EQ(criterion(row(result, "Torch.exp.0.forward.output.0")),
            "no_yardstick");
  EXPECT_EQ(verdict("Torch.cos"), "mismatch");    // it is right
  EXPECT_EQ(verdict("Torch.sin"), "mismatch");    // it is less wrong
  EXPECT_EQ(verdict("Torch.tan"), "incomplete");  // the same NaN
  EXPECT_EQ(verdict("Torch.abs"), "mismatch");    // moves values: bit for bit
}

TEST_F(PrecheckTest, WhatRaisesOnBothInTheGivenPrecisionIsNoMismatch) {
  const auto raises = [](const char* error) {
    return conform::Object{{"error", conform::List{error, "no bf16"}}};
  };
  for (const char* name : {"Torch.exp.0", "Torch.sin.0", "Torch.cos.0"})
    call(name, f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  for (const char* api : {"Torch.exp", "Torch.sin", "Torch.cos"})
    device_[api] = raises("NotImplementedError");
  given_["Torch.exp"] = raises("NotImplementedError");
  given_["Torch.sin"] = raises("ValueError");
  const RunResult result = run();
  EXPECT_EQ(criterion(row(result, "Torch.exp.0.forward")), "golden_failed");
  EXPECT_EQ(criterion(row(result, "Torch.sin.0.forward")), "failed");
  EXPECT_EQ(criterion(row(result, "Torch.cos.0.forward")), "failed");
}

TEST_F(PrecheckTest, AnotherPrecisionThanAskedForIsNoMatch) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  device_["Torch.exp"] =
      answer_of({{"output.0", f32({2}, {1, 2})}}, {{"precision", "float64"}});
  const RunResult result = run();
  EXPECT_EQ(criterion(row(result, "Torch.exp.0.forward.output.0")),
            "precision");
}

// Two devices of which neither was checked have to be no match.
TEST_F(PrecheckTest, DetailsHaveWhatWasNotChecked) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  call("Torch.sin.0", f32({1}, {1}), f64({2}, {1, 2}), "float32", "[2]");
  call("Torch.cos.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  device_["Torch.cos"] = conform::Object{{"mode", "unsupported"}};
  std::filesystem::create_directories(folder_ / "out");
  const std::vector<Detail> details = run().details;
  ASSERT_EQ(details.size(), 3u);
  EXPECT_EQ(details[0].status, "pass");
  EXPECT_EQ(details[1].name, "Torch.sin.0.forward.output.0");
  EXPECT_EQ(details[1].status, "error");
  EXPECT_EQ(details[2].status, "SKIP");
  EXPECT_EQ(compare_devices(details, details, {}).comparison.verdict,
            Verdict::kMismatch);
  EXPECT_EQ(
      compare_devices({details[0], details[2]}, {details[0], details[2]}, {})
          .comparison.verdict,
      Verdict::kIncomplete);
}

// Figures of an earlier run are none of this one, which may be killed.
TEST_F(PrecheckTest, FiguresOfAnEarlierRunAreGone) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  run();
  std::ofstream(folder_ / "out/details.csv") << "old";
  run();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/details.csv"));
}

TEST_F(PrecheckTest, AWriteThatOneSideAloneDidIsSeen) {
  op("Tensor.add_.0.forward");
  tensor("input", "input.0", "float32", "[2]");
  tensor("output", "output.0", "float32", "[2]");
  golden_["Tensor.add_"] = answer_of(
      {{"output.0", f64({2}, {5, 6})}, {"after.input.0", f64({2}, {5, 6})}});
  device_["Tensor.add_"] = answer_of({{"output.0", f32({2}, {5, 6})}});
  const RunResult result = run();
  EXPECT_EQ(row(result, "Tensor.add_.0.forward.after.input.0").verdict,
            Verdict::kMismatch);
}

TEST_F(PrecheckTest, OneCallStandsForThoseOfItsSignature) {
  for (const char* name : {"Torch.exp.0", "Torch.exp.1", "Torch.exp.2"})
    call(name, f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  const RunResult once = run();
  ASSERT_EQ(once.calls.size(), 1u);
  EXPECT_EQ(once.calls[0].stands_for, 3);
  EXPECT_EQ(once.chosen, 3);
  EXPECT_THAT(once.comparison.rows[0].reasons,
              ::testing::Contains(::testing::Field(
                  &Reason::text, "stands for 3 calls of this signature")));
  chosen_.every_call = true;
  EXPECT_EQ(run().calls.size(), 3u);
  chosen_.only = {"*.exp.1.forward"};
  const RunResult one = run();
  ASSERT_EQ(one.comparison.rows.size(), 1u);
  EXPECT_EQ(one.comparison.rows[0].name(), "Torch.exp.1.forward.output.0");
}

TEST_F(PrecheckTest, WhatIsSkippedHasARow) {
  op("Distributed.all_reduce.0.forward");
  tensor("input", "input.0", "float32", "[2]");
  op("Torch.empty.0.forward");
  leaf("input", "input.0", R"("type":"int","value":"2")");
  tensor("output", "output.0", "float32", "[2]");
  op("Torch.exp.0.forward");
  leaf("input", "input.0", R"("type":"my.Thing","opaque":"a Thing")");
  op("Torch.log.0.forward");
  leaf("input", "input.0", R"("unreadable":"freed storage")");
  const RunResult result = run();
  const auto& rows = result.comparison.rows;
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].verdict, Verdict::kIncomplete);
  EXPECT_EQ(rows[1].verdict, Verdict::kEmpty);
  EXPECT_THAT(rows[2].reasons[0].text, HasSubstr("my.Thing"));
  EXPECT_THAT(rows[3].reasons[0].text, HasSubstr("freed storage"));
  EXPECT_EQ(asked(), "");
  EXPECT_EQ(result.comparison.verdict, Verdict::kIncomplete);
}

TEST_F(PrecheckTest, ResumedItIsTheSameDocument) {
  for (const char* name :
       {"Torch.exp.0", "Torch.add.0", "Torch.log.0", "Torch.sin.0"})
    call(name, f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  device_["Torch.add"] = answer_of({{"output.0", f32({2}, {1, kInf})}});
  const auto document = [](const Comparison& comparison) {
    std::string text = json_text(comparison);
    const std::size_t at = text.find("\"seconds\":");
    return text.erase(at, text.find(',', at) - at);
  };
  const std::string whole = document(run().comparison);
  std::filesystem::remove_all(folder_ / "out");
  std::filesystem::remove(folder_ / "count");
  std::atomic<bool> stop = false;
  options_.stop = &stop;
  options_.progress = [&](std::int64_t, std::int64_t) { stop = true; };
  const RunResult part = run();
  EXPECT_TRUE(part.comparison.interrupted);
  EXPECT_NE(part.comparison.verdict, Verdict::kMatch);
  EXPECT_THAT(document(part.comparison),
              HasSubstr("not replayed: interrupted"));
  options_.stop = nullptr;
  options_.resume = true;
  EXPECT_EQ(document(run().comparison), whole);
  // Nothing was asked twice, and nothing at all once it is finished.
  const std::string log = asked();
  for (const char* name :
       {"Torch.exp.0", "Torch.add.0", "Torch.log.0", "Torch.sin.0"}) {
    const std::string line = std::string("device ") + name + "\n";
    EXPECT_NE(log.find(line), log.npos) << name;
    EXPECT_EQ(log.find(line), log.rfind(line)) << name;
  }
  EXPECT_EQ(document(run().comparison), whole);
  EXPECT_EQ(asked(), log);
}

TEST_F(PrecheckTest, AFolderOfOthersIsLeftAlone) {
  call("Torch.exp.0", f32({2}, {1, 2}), f64({2}, {1, 2}), "float32", "[2]");
  std::filesystem::create_directories(folder_ / "out");
  std::ofstream(folder_ / "out/thesis.tex") << "x";
  EXPECT_THROW(run(), Error);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out/thesis.tex"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out/journal.jsonl"));
}

}  // namespace
}  // namespace assay::precheck
