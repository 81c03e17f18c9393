// What is not finite on purpose, and what means nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "overflow_util.h"

namespace assay::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Values kX = {1, 2, -3};
const Values kMasked = {1, -kInf, -3};

// scores.masked_fill(mask, value)
void fill(TraceBuilder& b, const std::string& value, const Values& out,
          const std::string& api = "masked_fill") {
  b.op("Tensor." + api + ".0.forward").in(kX);
  b.value("input.2", "float", value).out(out);
}

TEST(OverflowMasks, MaskedFillAndSoftmaxAreNoOverflow) {
  TraceBuilder b;
  fill(b, "-inf", kMasked);
  b.op("Tensor.view.0.forward").in(kMasked).out(kMasked);
  b.op("Functional.softmax.0.forward").in(kMasked).out({0.98f, 0, 0.02f});
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), IsEmpty());
  EXPECT_FALSE(r.first);
  EXPECT_EQ(r.counts.masked, 2);
  EXPECT_EQ(r.counts.absorbed, 1);
  EXPECT_EQ(r.counts.propagated, 0);
}

TEST(OverflowMasks, NeverExcuseNanOrPlusInfinity) {
  TraceBuilder plus, mixed;
  fill(plus, "inf", {1, kInf, -3});
  fill(mixed, "-inf", {kNan, -kInf, -3});
  OverflowReport r = search(plus);
  EXPECT_THAT(found(r), ElementsAre("born Tensor.masked_fill.0.forward "
                                    "output.0"));
  EXPECT_THAT(r.first->note, HasSubstr("input.2 is inf"));
  r = search(mixed);
  EXPECT_EQ(r.counts.born, 1);
  EXPECT_EQ(r.counts.masked, 0);
}

TEST(OverflowMasks, ARowThatIsWhollyMaskedIsBornInTheSoftmax) {
  TraceBuilder b;
  fill(b, "-inf", {-kInf, -kInf, 2});
  b.op("Functional.softmax.0.forward").in({-kInf, -kInf, 2});
  b.out({kNan, kNan, 1});
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("born Functional.softmax.0.forward "
                                    "output.0"));
  EXPECT_THAT(r.first->note, HasSubstr("mask"));
}

TEST(OverflowMasks, ALogarithmOfZeroIsNone) {
  TraceBuilder b;
  b.op("Torch.log.0.forward").in({0, 1, 2}).out({-kInf, 0, 0.7f});
  b.op("Torch.add.0.forward").in({-kInf, 0, 0.7f}).out({-kInf, 1, 1.7f});
  b.op("Functional.softmax.0.forward").in({-kInf, 1, 1.7f});
  b.out({0, 0.4f, 0.6f});
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), ElementsAre("born Torch.log.0.forward output.0"));
  EXPECT_EQ(r.counts.propagated, 1);
  EXPECT_EQ(r.counts.masked, 0);
}

// The mask comes in from outside and is added to the scores.
TraceBuilder added_mask(const std::string& consumer) {
  TraceBuilder b;
  b.op("Torch.add.0.forward").in(kX);
  b.tensor(Role::kInput, "input.1", f32({3}, {0, -kInf, 0})).out(kMasked);
  b.op(consumer).in(kMasked).out({0.98f, 0, 0.02f});
  return b;
}

TEST(OverflowMasks, FromOutsideOnlyIfASoftmaxTakesThemAway) {
  TraceBuilder good = added_mask("Functional.softmax.0.forward");
  EXPECT_FALSE(search(good).first);
  TraceBuilder attention = added_mask("Module.h.SelfAttention.forward.0");
  EXPECT_FALSE(search(attention).first);
  TraceBuilder bad = added_mask("Functional.relu.0.forward");
  const OverflowReport r = search(bad);
  EXPECT_THAT(found(r), ElementsAre("entered Torch.add.0.forward input.1"));
  EXPECT_EQ(r.counts.absorbed, 1);
}

TEST(OverflowMasks, AModuleThatMakesOneIsNotBlamed) {
  TraceBuilder b;
  b.op("Torch.full.0.forward", "Module.m.Mask.forward.0");
  b.value("input.1", "float", "-inf").out({-kInf, -kInf});
  b.op("Module.m.Mask.forward.0").in(kX).out({-kInf, -kInf});
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), IsEmpty());
  EXPECT_EQ(r.counts.masked, 2);
}

TEST(OverflowUndefined, EmptyMemoryIsNoBirthAndNoInput) {
  const Values garbage = {kNan, 1e30f, 7};
  TraceBuilder b;
  b.op("Torch.empty.0.forward").value("input.0", "int", "3").out(garbage);
  b.op("Tensor.view.0.forward").in(garbage).out(garbage);
  b.op("Tensor.copy_.0.forward").in(garbage);
  b.tensor(Role::kInput, "input.1", f32({3}, kX)).out(kX);
  b.op("Torch.abs.0.forward").in(kX);
  b.tensor(Role::kInput, "input.out", f32({3}, {kNan, 2, 3})).out({1, 2, 3});
  const OverflowReport r = search(b);
  EXPECT_THAT(found(r), IsEmpty());
  EXPECT_FALSE(r.first);
}

TEST(OverflowUndefined, ComputingWithItIsABirth) {
  const Values garbage = {kNan, 1e30f, 7};
  TraceBuilder b;
  b.op("Torch.empty.0.forward").value("input.0", "int", "3").out(garbage);
  b.op("Torch.add.0.forward").in(garbage);
  b.tensor(Role::kInput, "input.1", f32({3}, kX)).out({kNan, 1e30f, 4});
  const OverflowReport r = search(b);
  ASSERT_TRUE(r.first);
  EXPECT_EQ(r.first->op, "Torch.add.0.forward");
  EXPECT_THAT(r.first->note, HasSubstr("nothing had written"));
}

TEST(OverflowUndefined, MaskedFillInPlaceKeepsWhatItDoesNotCover) {
  TraceBuilder covered, kept;
  covered.op("Tensor.masked_fill_.0.forward").in({kNan, 2, 3});
  covered.value("input.2", "float", "0.0").out({0, 2, 3});
  EXPECT_FALSE(search(covered).first);
  kept.op("Torch.exp.0.forward").in(kX).out({kNan, 2, 3});
  kept.op("Tensor.masked_fill_.0.forward").in({kNan, 2, 3});
  kept.value("input.2", "float", "0.0").out({kNan, 0, 3});
  const OverflowReport r = search(kept);
  EXPECT_THAT(found(r), ElementsAre("born Torch.exp.0.forward output.0"));
  EXPECT_EQ(r.counts.propagated, 1);
}

}  // namespace
}  // namespace assay::test
