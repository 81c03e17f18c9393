// The overflow search over the ranks of a step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "overflow_util.h"

namespace assay::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Values kX = {1, 2, -3};
const Values kY = {4, 5, -6};
const Values kBad = {kInf, 5, -6};

// gelu -> all_reduce -> relu.
Trace reduced(std::int64_t rank, const Values& gelu, const Values& sum,
              int operators_before = 0) {
  TraceBuilder b;
  for (int i = 0; i < operators_before; ++i)
    b.op("Torch.abs." + std::to_string(i) + ".forward").in(kX).out(kX);
  b.op("Functional.gelu.0.forward").in(kX).out(gelu);
  b.op("Distributed.all_reduce.0.forward").in(gelu).out(sum).group({0, 1});
  b.op("Functional.relu.0.forward").in(sum).out(sum);
  return b.build(rank);
}

TEST(OverflowRanks, AnAllReduceBringsItFromTheRankWhereItWasBorn) {
  const OverflowReport r =
      search(reduced(0, kY, kBad), reduced(1, kBad, kBad, 9));
  EXPECT_THAT(found(r),
              ElementsAre("arrived Distributed.all_reduce.0.forward output.0",
                          "born Functional.gelu.0.forward output.0"));
  ASSERT_TRUE(r.first);
  EXPECT_EQ(r.first->op, "Functional.gelu.0.forward");
  EXPECT_EQ(r.first->rank, 1);
  ASSERT_TRUE(r.found[0].sender);
  EXPECT_EQ(r.found[0].sender->rank, 1);
  EXPECT_EQ(r.found[0].sender->op, "Distributed.all_reduce.0.forward");
  // On rank 1 itself it is propagated, and so is the relu of both.
  EXPECT_EQ(r.counts.propagated, 3);
  ASSERT_FALSE(r.carried.empty());
  EXPECT_EQ(r.carried.front().rank, 1);
  EXPECT_EQ(r.carried.back().kind, OverflowKind::kArrived);
}

TEST(OverflowRanks, ASumOfFiniteValuesIsBornInTheAllReduce) {
  const OverflowReport r = search(reduced(0, kY, kBad), reduced(1, kY, kBad));
  EXPECT_THAT(found(r),
              ElementsAre("born Distributed.all_reduce.0.forward output.0",
                          "born Distributed.all_reduce.0.forward output.0"));
  EXPECT_EQ(r.first->rank, 0);
}

TEST(OverflowRanks, ARankThatWasNotCapturedForbidsToSayBorn) {
  const OverflowReport r = search(reduced(0, kY, kBad));
  EXPECT_THAT(found(r), ElementsAre("unknown Distributed.all_reduce.0.forward "
                                    "output.0"));
}

// A pipeline: rank 0 sends, rank 1 receives into memory that means nothing.
Trace sender(const Values& sent) {
  TraceBuilder b;
  for (int i = 0; i < 5; ++i)
    b.op("Torch.abs." + std::to_string(i) + ".forward").in(kX).out(kX);
  b.op("Functional.gelu.0.forward").in(kX).out(sent);
  b.op("Distributed.send.0.forward").in(sent).value("input.1", "int", "1");
  return b.build(0);
}

Trace receiver(const Values& got, const Values& next) {
  TraceBuilder b;
  b.op("Distributed.recv.0.forward").in({kNan, 7, 7});
  b.value("input.1", "int", "0").out(got);
  b.op("Functional.relu.0.forward").in(got).out(next);
  return b.build(1);
}

TEST(OverflowRanks, AReceiveNamesTheSend) {
  const OverflowReport r = search(sender(kBad), receiver(kBad, kBad));
  EXPECT_THAT(found(r),
              ElementsAre("born Functional.gelu.0.forward output.0",
                          "arrived Distributed.recv.0.forward output.0"));
  EXPECT_EQ(r.first->rank, 0);
  EXPECT_EQ(r.found[1].sender->rank, 0);
  EXPECT_EQ(r.found[1].sender->op, "Distributed.send.0.forward");
}

TEST(OverflowRanks, AReceiveBufferIsNoInput) {
  const OverflowReport r = search(sender(kY), receiver(kY, kY));
  EXPECT_THAT(found(r), IsEmpty());
  EXPECT_EQ(r.counts.unseen, 0);
}

TEST(OverflowRanks, WhatTurnsBadUnderWayIsBornInTheReceive) {
  const OverflowReport r = search(sender(kY), receiver(kBad, kBad));
  EXPECT_EQ(r.first->op, "Distributed.recv.0.forward");
  EXPECT_EQ(r.first->kind, OverflowKind::kBorn);
}

// Both ranks have one of their own: the one before the exchange is first,
// however far down its own list.
TEST(OverflowRanks, TheOrderFollowsTheExchanges) {
  TraceBuilder late;
  late.op("Distributed.all_reduce.0.forward").in(kX).out(kX).group({0, 1});
  late.op("Torch.exp.0.forward").in(kX).out(kBad);
  TraceBuilder early;
  for (int i = 0; i < 9; ++i)
    early.op("Torch.abs." + std::to_string(i) + ".forward").in(kX).out(kX);
  early.op("Torch.log.0.forward").in(kX).out(kBad);
  early.op("Torch.nan_to_num.0.forward").in(kBad).out(kX);
  early.op("Distributed.all_reduce.0.forward").in(kX).out(kX).group({0, 1});
  const OverflowReport r = search(late.build(0), early.build(1));
  EXPECT_EQ(r.counts.born, 2);
  EXPECT_EQ(r.first->op, "Torch.log.0.forward");
}

TEST(OverflowRanks, ABroadcastMaskIsNoOverflow) {
  const Values mask = {0, -kInf, 0};
  const auto rank = [&](std::int64_t number, bool consumed) {
    TraceBuilder b;
    if (number == 0) {
      b.op("Tensor.masked_fill.0.forward").in(kX);
      b.value("input.2", "float", "-inf").out(mask);
    }
    b.op("Distributed.broadcast.0.forward").in(number == 0 ? mask : kX);
    b.value("input.src", "int", "0").out(mask).group({0, 1});
    if (consumed)
      b.op("Functional.softmax.0.forward").in(mask).out({0.5f, 0, 0.5f});
    return b.build(number);
  };
  EXPECT_THAT(found(search(rank(0, true), rank(1, true))), IsEmpty());
  // Nothing shows that it is a mask.
  EXPECT_EQ(search(rank(0, true), rank(1, false)).counts.born, 1);
}

}  // namespace
}  // namespace assay::test
