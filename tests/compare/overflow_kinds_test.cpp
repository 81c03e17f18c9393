// Each kind of finding of the overflow search, on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "overflow_util.h"

namespace assay::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Values kX = {1, 2, -3};
const Values kY = {4, 5, -6};

TEST(Overflow, BornWhereFiniteBecomesInfinite) {
  TraceBuilder b;
  b.op("Functional.linear.0.forward").in(kX).parameter(kX).out(kY);
  b.op("Torch.exp.0.forward").in(kY).out({kInf, kInf, 0.5f});
  b.op("Torch.sub.0.forward").in({kInf, kInf, 0.5f}).out({kNan, kNan, 1});
  b.op("Torch.mean.0.forward").in({kNan, kNan, 1}).out({kNan});
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0"));
  ASSERT_TRUE(r.first);
  EXPECT_EQ(r.first->op, "Torch.exp.0.forward");
  EXPECT_EQ(r.first->leaf.value.positive_inf, 2);
  EXPECT_EQ(r.first->leaf.value.nan, 0);
  EXPECT_EQ(r.first->leaf.value.max, 0.5);
  EXPECT_EQ(r.first->dtype_max, 3.4028234663852886e38);  // of float32
  ASSERT_EQ(r.first->inputs.size(), 1u);
  EXPECT_EQ(r.first->inputs[0].value.max, 5);
  EXPECT_EQ(r.first->inputs[0].value.min, -6);
  EXPECT_EQ(r.counts.propagated, 2);
  ASSERT_EQ(r.carried.size(), 2u);
  EXPECT_EQ(r.carried[0].op, "Torch.sub.0.forward");
  EXPECT_EQ(r.carried[1].op, "Torch.mean.0.forward");
  EXPECT_EQ(r.counts.unseen, 0);
}

TEST(Overflow, NothingWhereAllIsFinite) {
  TraceBuilder b;
  b.op("Functional.linear.0.forward").in(kX).parameter(kX).out(kY);
  const OverflowReport r = search(b);
  EXPECT_FALSE(r.first);
  EXPECT_THAT(found(r), IsEmpty());
  EXPECT_EQ(r.counts.records, 3);
  EXPECT_EQ(r.counts.ops, 1);
}

TEST(Overflow, ABirthIsListedForEveryOperatorThatGivesIt) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward").in(kX).out({kInf, 1, 2});
  b.op("Torch.log.0.forward").in({0, 1, 2}).out({-kInf, 0, 0.7f});
  EXPECT_THAT(found(search(b)),
              ElementsAre("born Torch.exp.0.forward output.0",
                          "born Torch.log.0.forward output.0"));
}

TEST(Overflow, EnteredByAParameterOrAnInputOfTheStep) {
  TraceBuilder b;
  b.op("Functional.linear.0.forward").in(kX).parameter({kNan, 1, 2});
  b.out({kNan, 1, 2});
  OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("entered Functional.linear.0.forward "
                                    "parameters.weight"));
  EXPECT_EQ(r.counts.entered, 1);
  TraceBuilder c;
  c.op("Torch.abs.0.forward").in({kNan, 1, 2}).out({kNan, 1, 2});
  r = search(c);
  EXPECT_THAT(found(r), ElementsAre("entered Torch.abs.0.forward input.0"));
}

TEST(Overflow, UnknownWhereAnInputIsNotKnown) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward");
  b.digest(Role::kInput, "input.0", DType::kF32, {3}, "0a1b2c3d");
  b.out({kInf, 1, 2});
  b.op("Torch.exp.1.forward").out({kInf, 1, 3});  // no input was captured
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("unknown Torch.exp.0.forward output.0",
                                    "unknown Torch.exp.1.forward output.0"));
  EXPECT_EQ(r.counts.born, 0);
  EXPECT_EQ(r.counts.unseen, 1);
  EXPECT_EQ(r.unseen.at(0).name, "Torch.exp.0.forward.input.0");
  EXPECT_EQ(r.unseen.at(0).why, "the dump kept only a checksum");
}

TEST(Overflow, AnEntryOfAPlainFileHasNoOrigin) {
  TraceBuilder b;
  b.op("weights").tensor(Role::kTensor, "w", f32({2}, {kNan, 1}));
  EXPECT_THAT(found(search(b)), ElementsAre("unknown weights w"));
}

TEST(Overflow, WhatCannotBeReadWasNotLookedAt) {
  TraceBuilder b;
  b.op("Torch.abs.0.forward").in(kX).out(kX);
  b.last().file = "gone.pt";
  const OverflowReport r = search(b);
  EXPECT_FALSE(r.first);
  EXPECT_EQ(r.counts.unseen, 1);
  EXPECT_THAT(r.unseen.at(0).why, HasSubstr("truncated at byte 7"));
}

// Whole numbers and booleans are finite whether or not a dump says so.
TEST(Overflow, ExactAndEmptyTensorsNeedNoStatistics) {
  TraceBuilder b;
  b.op("Torch.argmax.0.forward");
  b.digest(Role::kInput, "input.0", DType::kI64, {3}, "");
  b.digest(Role::kInput, "input.1", DType::kBool, {3}, "");
  b.digest(Role::kInput, "input.2", DType::kF32, {0, 3}, "");
  EXPECT_EQ(search(b).counts.unseen, 0);
}

TEST(Overflow, AbsorbedWhereTheOutputIsFiniteAgain) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward").in(kX).out({kInf, 1, 2});
  b.op("Torch.nan_to_num.0.forward").in({kInf, 1, 2}).out({9, 1, 2});
  const OverflowReport r = search(b);
  EXPECT_EQ(r.counts.absorbed, 1);
  EXPECT_EQ(r.counts.propagated, 0);
  EXPECT_EQ(r.counts.born, 1);
}

TEST(Overflow, AnInputWithoutACapturedOutputIsCarriedOn) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward").in(kX).out({kInf, 1, 2});
  b.op("Tensor.backward.0.forward").in({kInf, 1, 2});
  const OverflowReport r = search(b);
  EXPECT_EQ(r.counts.propagated, 1);
  EXPECT_EQ(r.counts.absorbed, 0);
}

// exp inside of a block, both orders of listing: msprobe's and ours.
TEST(Overflow, TheInnermostOperatorIsBlamed) {
  const Values bad = {kInf, 1, 2};
  const auto inner = [&](TraceBuilder& b) {
    b.op("Torch.exp.0.forward", "Module.h.Block.forward.0").in(kY).out(bad);
  };
  TraceBuilder after, before;
  inner(after);
  after.op("Module.h.Block.forward.0").in(kX).out(bad);
  before.op("Module.h.Block.forward.0").in(kX).out(bad);
  inner(before);
  for (TraceBuilder* b : {&after, &before}) {
    const OverflowReport r = search(*b);
    EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0"));
    EXPECT_THAT(r.first->call_path, ElementsAre("Module.h.Block.forward.0"));
    EXPECT_EQ(r.counts.propagated, 1);
  }
}

TEST(Overflow, ABackwardIsBlamedOnlyWhenItsForwardWasFinite) {
  for (const bool forward_finite : {true, false}) {
    TraceBuilder b;
    b.op("Functional.relu.0.forward").in(kX);
    b.out(forward_finite ? kY : Values{kNan, 1, 2});
    b.op("Functional.relu.0.backward").in(kY).out({kInf, 0, 0});
    const OverflowReport r = search(b);
    EXPECT_EQ(r.first->op, forward_finite ? "Functional.relu.0.backward"
                                          : "Functional.relu.0.forward");
    EXPECT_EQ(r.counts.born, 1);
    EXPECT_EQ(r.counts.propagated, forward_finite ? 0 : 1);
  }
}

TEST(Overflow, ARecomputedForwardIsBornAgainButNotFirst) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward").in(kX).out({kInf, 1, 2});
  b.op("Torch.exp.0.forward.recompute").in(kX).out({kInf, 1, 2});
  b.last_op().recompute = true;
  b.last_op().direction = Direction::kForward;
  const OverflowReport r = search(b);
  EXPECT_EQ(r.counts.born, 2);
  EXPECT_EQ(r.first->op, "Torch.exp.0.forward");
}

// Statistics alone, as msprobe and our captures write them.
TEST(Overflow, StatisticsTellToo) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward");
  b.statistics(Role::kInput, "input.0", {4}, 90, -1, 1, 91);
  b.statistics(Role::kOutput, "output.0", {4}, kInf, 0.3, kInf, kInf);
  b.op("Torch.sub.0.forward");
  b.statistics(Role::kInput, "input.0", {4}, kInf, 0.3, kInf, kInf);
  b.statistics(Role::kOutput, "output.0", {4}, kNan, kNan, kNan, kNan);
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0"));
  EXPECT_EQ(r.first->leaf.value.positive_inf, ValueState::kSome);
  EXPECT_EQ(r.first->leaf.value.min, 0.3);
  EXPECT_EQ(r.counts.propagated, 1);
}

TEST(Overflow, CountsOfOurCapturesAndTheNanCheckOfMsprobe) {
  TraceBuilder b;
  b.op("Torch.exp.0.forward").in(kX);
  b.statistics(Role::kOutput, "output.0", {8}, 3, 1, 2, 5);  // of the finite
  b.last().value = R"({"nan":2,"inf":1})";
  b.op("Torch.exp.1.forward");
  b.digest(Role::kInput, "input.0", DType::kBF16, {8}, "");
  b.last().value = R"({"is_nan":0})";
  b.digest(Role::kOutput, "output.0", DType::kBF16, {8}, "");
  b.last().value = R"({"is_nan":1})";
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0",
                                    "born Torch.exp.1.forward output.0"));
  EXPECT_EQ(r.first->leaf.value.nan, 2);
  EXPECT_EQ(r.first->leaf.value.positive_inf, 1);
  EXPECT_EQ(r.counts.unseen, 0);
}

// A norm that overflows says nothing of the elements.
TEST(Overflow, AnInfiniteNormAloneIsNoFinding) {
  TraceBuilder b;
  b.op("Torch.abs.0.forward").in(kX);
  b.statistics(Role::kOutput, "output.0", {4}, 3e4, 1, kInf, kInf);
  EXPECT_FALSE(search(b).first);
}

}  // namespace
}  // namespace assay::test
