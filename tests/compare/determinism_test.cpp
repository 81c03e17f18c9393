// Runs that part where a fault was planted, as our own captures have them.
#include "assay/compare/determinism/determinism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "assay/base/error.h"
#include "assay/trace/capture_writer.h"
#include "synthetic.h"
#include "tests/trace/temp_dir.h"

namespace assay::test {
namespace {

using testing::HasSubstr;

// Writes one step as a capture by hashes does.
class Step {
 public:
  Step(const std::filesystem::path& run, std::int64_t step,
       CaptureMode mode = CaptureMode::kHash)
      : writer_(run / ("step" + std::to_string(step)) / "rank0",
                options(step, mode)) {}

  // "Functional.gelu.0.forward"; `line` of the script that calls it.
  Step& op(const std::string& name, int line = 1, int parent = -1) {
    Op op;
    op.name = name;
    const auto dot = name.find('.');
    op.prefix = name.substr(0, dot);
    const auto end = name.find('.', dot + 1);
    op.api = name.substr(dot + 1, end - dot - 1);
    op.direction = name.find(".backward") == name.npos ? Direction::kForward
                                                       : Direction::kBackward;
    op.parent = parent;
    op.stack = writer_.stack({"train.py:" + std::to_string(line) + " in main"});
    op_ = writer_.op(op);
    return *this;
  }
  Step& leaf(Role role, const std::string& name, std::vector<float> values) {
    const auto size = static_cast<std::int64_t>(values.size());
    writer_.tensor({op_, role, name, "torch.Tensor"}, f32({size}, values).view,
                   false);
    return *this;
  }
  Step& in(std::vector<float> values) {
    return leaf(Role::kInput, "input.0", std::move(values));
  }
  Step& out(std::vector<float> values) {
    return leaf(Role::kOutput, "output.0", std::move(values));
  }
  Step& argument(const std::string& text) {
    writer_.value({op_, Role::kInput, "input.1", "float"}, text);
    return *this;
  }

 private:
  static CaptureOptions options(std::int64_t step, CaptureMode mode) {
    CaptureOptions options;
    options.mode = mode;
    options.step = step;
    return options;
  }
  CaptureWriter writer_;
  std::uint32_t op_ = 0;
};

struct Values {
  std::vector<float> x = {1, 2}, weight = {3, 4}, linear = {5, 6},
                     gelu = {7, 8}, dropped = {7, 0};
};

// linear -> gelu -> dropout in a module.
void write_step(const std::filesystem::path& run, std::int64_t step,
                const Values& v = {}) {
  Step s(run, step);
  s.op("Module.Net.forward.0").in(v.x);
  s.leaf(Role::kParameter, "parameters.weight", v.weight);
  s.op("Functional.linear.0.forward", 4, 0).in(v.x);
  s.leaf(Role::kInput, "input.1", v.weight).out(v.linear);
  s.op("Functional.gelu.0.forward", 5, 0).in(v.linear).out(v.gelu);
  s.op("Functional.dropout.0.forward", 6, 0).in(v.gelu).out(v.dropped);
}

class Determinism : public testing::Test {
 protected:
  std::filesystem::path run(int number) const {
    return folder_.path() / ("run" + std::to_string(number));
  }
  DeterminismReport compared(int runs = 2, bool setup = false) const {
    std::vector<RunTraces> all;
    for (int i = 1; i <= runs; ++i) {
      all.push_back({(run(i) / "steps").string(),
                     setup ? (run(i) / "setup").string() : ""});
    }
    return find_nondeterminism(all);
  }
  // The finding of run 1 as it is against run 2 with these values.
  DeterminismFinding parted(const Values& second) const {
    write_step(run(1) / "steps", 0);
    write_step(run(2) / "steps", 0, second);
    const DeterminismReport report = compared();
    EXPECT_EQ(report.verdict, Verdict::kMismatch);
    return report.first.value_or(DeterminismFinding());
  }

 private:
  TempDir folder_;
};

TEST_F(Determinism, TheSameBitsAreDeterministic) {
  for (int i : {1, 2, 3}) {
    write_step(run(i) / "steps", 0);
    write_step(run(i) / "steps", 1);
  }
  const DeterminismReport report = compared(3);
  EXPECT_EQ(report.verdict, Verdict::kMatch);
  EXPECT_FALSE(report.first);
  EXPECT_EQ(report.runs, 3);
  EXPECT_EQ(report.steps, (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(report.counts.match, 18);
}

TEST_F(Determinism, NamesTheOperatorWhoseInputsAgree) {
  const auto f = parted({.gelu = {7, 8.0000005f}, .dropped = {7.0000005f, 0}});
  EXPECT_EQ(f.kind, Parting::kOperator);
  EXPECT_EQ(f.op, "Functional.gelu.0.forward");
  EXPECT_EQ(f.leaf, "output.0");
  EXPECT_EQ(f.call_path, std::vector<std::string>{"Module.Net.forward.0"});
  EXPECT_EQ(f.stack, std::vector<std::string>{"train.py:5 in main"});
  EXPECT_NE(f.first, f.second);
  EXPECT_EQ(f.shape, Shape{2});
}

TEST_F(Determinism, TellsADrawFromAComputation) {
  const auto f = parted({.dropped = {0, 8}});
  EXPECT_EQ(f.kind, Parting::kRandom);
  EXPECT_EQ(f.op, "Functional.dropout.0.forward");
}

TEST_F(Determinism, KnowsWhyAProductMayDiffer) {
  const auto f = parted({.linear = {5, 7}, .gelu = {1, 1}, .dropped = {1, 0}});
  EXPECT_EQ(f.op, "Functional.linear.0.forward");
  EXPECT_THAT(f.cause, HasSubstr("CUBLAS_WORKSPACE_CONFIG"));
}

TEST_F(Determinism, OtherWeightsAreNoOperatorsFault) {
  const auto f = parted({.weight = {3, 5}, .linear = {5, 7}, .gelu = {1, 1}});
  EXPECT_EQ(f.kind, Parting::kWeights);
  EXPECT_EQ(f.op, "Module.Net.forward.0");
  EXPECT_EQ(f.leaf, "parameters.weight");
  EXPECT_TRUE(compared().another_start());
}

TEST_F(Determinism, OtherDataAreNoOperatorsFault) {
  const auto f = parted({.x = {1, 3}, .linear = {5, 7}});
  EXPECT_EQ(f.kind, Parting::kData);
  EXPECT_EQ(f.leaf, "input.0");
  EXPECT_TRUE(compared().another_start());
}

TEST_F(Determinism, NamesTheStepInWhichRunsPart) {
  for (int i : {1, 2}) write_step(run(i) / "steps", 0);
  write_step(run(1) / "steps", 1);
  write_step(run(2) / "steps", 1, {.gelu = {0, 0}, .dropped = {0, 0}});
  const DeterminismReport report = compared();
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->step, 1);
  EXPECT_EQ(report.first->op, "Functional.gelu.0.forward");
}

TEST_F(Determinism, TheEarliestOfAllRunsIsFirst) {
  write_step(run(1) / "steps", 0);
  write_step(run(2) / "steps", 0, {.dropped = {0, 8}});
  write_step(run(3) / "steps", 0, {.gelu = {0, 0}, .dropped = {0, 0}});
  const DeterminismReport report = compared(3);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->op, "Functional.gelu.0.forward");
  EXPECT_EQ(report.first->run, 3);
}

// The extra call takes the name of a later one: values differ there, because
// it is another call.
TEST_F(Determinism, AnotherCallIsNoOperatorsFault) {
  for (int i : {1, 2}) {
    Step s(run(i) / "steps", 0);
    s.op("Torch.neg.0.forward", 1).in({1}).out({-1});
    int add = 0;
    const auto next = [&] {
      return "Torch.add." + std::to_string(add++) + ".forward";
    };
    if (i == 2) s.op(next(), 2).in({5}).out({6});
    s.op(next(), 3).in({-1}).out({0});
    s.op(next(), 4).in({0}).out({1});
  }
  const DeterminismReport report = compared();
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kCalls);
  EXPECT_EQ(report.first->op, "Torch.add.0.forward");
  EXPECT_EQ(report.first->stack,
            std::vector<std::string>{"train.py:3 in main"});
  EXPECT_FALSE(report.another_start());
}

TEST_F(Determinism, ACallThatARunLacksIsNamed) {
  for (int i : {1, 2}) {
    Step s(run(i) / "steps", 0);
    s.op("Torch.neg.0.forward", 1).in({1}).out({-1});
    if (i == 1) s.op("Torch.abs.0.forward", 2).in({-1}).out({1});
  }
  const DeterminismReport report = compared();
  EXPECT_EQ(report.verdict, Verdict::kMismatch);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kCalls);
  EXPECT_EQ(report.first->first, "Torch.abs.0.forward");
  EXPECT_EQ(report.first->second, "");
}

// What differs before decides what is called later.
TEST_F(Determinism, AValueThatDiffersBeforeTheCallsIsFirst) {
  for (int i : {1, 2}) {
    Step s(run(i) / "steps", 0);
    s.op("Torch.neg.0.forward", 1).in({1}).out({i == 1 ? -1.f : -2.f});
    if (i == 1) s.op("Torch.abs.0.forward", 2).in({-1}).out({1});
  }
  const DeterminismReport report = compared();
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kOperator);
  EXPECT_EQ(report.first->op, "Torch.neg.0.forward");
}

TEST_F(Determinism, AStepThatARunLacksIsNamed) {
  for (int i : {1, 2}) write_step(run(i) / "steps", 0);
  for (int i : {1, 2}) write_step(run(i) / "steps", 1);
  write_step(run(1) / "steps", 2);
  const DeterminismReport report = compared();
  EXPECT_EQ(report.verdict, Verdict::kMismatch);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kCalls);
  EXPECT_EQ(report.first->step, 2);
  EXPECT_EQ(report.first->second, "");
}

TEST_F(Determinism, APlainArgumentThatDiffersIsNamed) {
  for (int i : {1, 2}) {
    Step s(run(i) / "steps", 0);
    s.op("Torch.mul.0.forward").in({1}).argument(i == 1 ? "0.25" : "0.5");
    s.out({i == 1 ? 0.25f : 0.5f});
  }
  const DeterminismReport report = compared();
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kArgument);
  EXPECT_EQ(report.first->first, "0.25");
  EXPECT_EQ(report.first->second, "0.5");
}

TEST_F(Determinism, TensorsTakenInAnotherOrderAreNamed) {
  for (int i : {1, 2}) {
    Step s(run(i) / "steps", 0);
    s.op("Torch.neg.0.forward", 1).in({1, 2}).out({-1, -2});
    s.op("Torch.abs.0.forward", 2).in({-3, 4}).out({3, 4});
    s.op("Torch.relu.0.forward", 3);
    i == 1 ? s.in({-1, -2}).out({0, 0}) : s.in({3, 4}).out({3, 4});
  }
  const DeterminismReport report = compared();
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kExchange);
  EXPECT_EQ(report.first->op, "Torch.relu.0.forward");
  EXPECT_THAT(report.first->cause, HasSubstr("Torch.neg.0.forward"));
  EXPECT_THAT(report.first->cause, HasSubstr("Torch.abs.0.forward"));
}

TEST_F(Determinism, WhatIsMadeOfThingsOutsideIsData) {
  for (int i : {1, 2}) {
    Step s(run(i) / "steps", 0);
    s.op("Torch.from_numpy.0.forward").out({i == 1 ? 1.f : 2.f});
  }
  const DeterminismReport report = compared();
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kData);
}

void write_setup(const std::filesystem::path& run, float garbage, float draw) {
  Step s(run / "setup", 0);
  s.op("Torch.empty.0.forward", 1).argument("2").out({garbage, garbage + 1});
  s.op("Tensor.t.0.forward", 2).in({garbage, garbage + 1});
  s.out({garbage, garbage + 1});
  s.op("Tensor.normal_.0.forward", 3).in({garbage, garbage + 1});
  s.out({draw, 2});
}

TEST_F(Determinism, MemoryThatNobodyReadIsNoDifference) {
  for (int i : {1, 2}) {
    write_setup(run(i), static_cast<float>(i), 0.5f);
    write_step(run(i) / "steps", 0);
  }
  EXPECT_EQ(compared(2, true).verdict, Verdict::kMatch);
}

TEST_F(Determinism, WhatCameInIsFollowedToWhereItWasDrawn) {
  for (int i : {1, 2}) {
    const auto value = static_cast<float>(i);
    write_setup(run(i), value, value);
    write_step(run(i) / "steps", 0, {.weight = {value, 2}});
  }
  const DeterminismReport report = compared(2, true);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kRandom);
  EXPECT_EQ(report.first->op, "Tensor.normal_.0.forward");
  EXPECT_TRUE(report.first->setup);
  EXPECT_EQ(report.first->reached, "Module.Net.forward.0.parameters.weight");
}

// A comparison of two implementations says of these that it cannot tell.
TEST_F(Determinism, WithElementsDrawsAndNaNAreComparedToo) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int i : {1, 2, 3}) {
    Step s(run(i) / "steps", 0, CaptureMode::kTensor);
    s.op("Torch.log.0.forward").in({-1, -2}).out({nan, nan});
    s.op("Torch.rand.0.forward").argument("2").out({0.5f, i == 3 ? 0.75f : 1});
  }
  EXPECT_EQ(compared().verdict, Verdict::kMatch);
  const DeterminismReport report = compared(3);
  ASSERT_TRUE(report.first);
  EXPECT_EQ(report.first->kind, Parting::kRandom);
  EXPECT_EQ(report.first->op, "Torch.rand.0.forward");
  EXPECT_THAT(report.first->figures, HasSubstr("max abs 0.25"));
}

TEST_F(Determinism, WhatCannotBeComparedIsNotCalledDeterministic) {
  EXPECT_THROW(compared(1), Error);
  write_step(run(1) / "steps", 0);
  EXPECT_THROW(compared(), Error);  // run 2 left nothing
  { Step empty(run(3) / "steps", 0); }
  { Step empty(run(4) / "steps", 0); }
  const DeterminismReport report = find_nondeterminism(
      {{(run(3) / "steps").string(), ""}, {(run(4) / "steps").string(), ""}});
  EXPECT_EQ(report.verdict, Verdict::kIncomplete);
}

}  // namespace
}  // namespace assay::test
