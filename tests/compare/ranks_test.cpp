// Mismatches that cross ranks.
#include <gtest/gtest.h>

#include "assay/compare/pair_locations.h"
#include "synthetic.h"

namespace assay::test {
namespace {

using Values = std::vector<float>;

const Values kX = {1, 2, -3};
const Values kGood = {0.5f, -2, 4};
const Values kBad = {0.5f, -2.5f, 4};

Origin origin(const Comparison& result, std::size_t group,
              const std::string& name) {
  for (const Row& row : result.rows) {
    if (row.group == group && row.name() == name) return row.origin;
  }
  ADD_FAILURE() << name;
  return Origin::kNone;
}

// gelu -> all_reduce -> relu on one rank.
Trace reduce(std::int64_t rank, const Values& gelu, const Values& reduced,
             std::vector<std::int64_t> members = {0, 1}) {
  TraceBuilder b;
  if (rank == 1) b.op("Torch.abs.0.forward").in(kX).out({1, 2, 3});
  b.op("Functional.gelu.0.forward").in(kX).out(gelu);
  b.op("Distributed.all_reduce.0.forward")
      .in(gelu)
      .value("input.group", "torch.ProcessGroup", "[0,1]")
      .out(reduced)
      .group(std::move(members));
  b.op("Functional.relu.0.forward").in(reduced).out(reduced);
  return b.build(rank);
}

TEST(Ranks, ACollectiveInheritsFromTheRankThatDiffers) {
  RankSet run;
  run.add(reduce(0, kX, kGood), reduce(0, kX, kBad));
  run.add(reduce(1, kX, kGood), reduce(1, kBad, kBad));
  const Comparison result = run.compare();
  EXPECT_EQ(origin(result, 0, "Distributed.all_reduce.0.forward.output.0"),
            Origin::kInherited);
  EXPECT_EQ(result.counts.born, 1);
  EXPECT_EQ(result.first_divergence->name, "Functional.gelu.0.forward");
  EXPECT_EQ(result.groups[result.rows[result.first_divergence->row].group].rank,
            1);
}

TEST(Ranks, ACollectiveWhoseInputsAllAgreeIsBlamed) {
  RankSet run;
  run.add(reduce(0, kX, kGood), reduce(0, kX, kBad));
  run.add(reduce(1, kX, kGood), reduce(1, kX, kBad));
  const Comparison result = run.compare();
  EXPECT_EQ(result.first_divergence->name, "Distributed.all_reduce.0.forward");
  EXPECT_EQ(result.first_divergence->kind, "born");
}

TEST(Ranks, ARankThatWasNotDumpedForbidsToSayBorn) {
  RankSet run;
  run.add(reduce(0, kX, kGood), reduce(0, kX, kBad));
  const Comparison result = run.compare();
  EXPECT_EQ(result.first_divergence->name, "Distributed.all_reduce.0.forward");
  EXPECT_EQ(result.first_divergence->kind, "undetermined");
}

TEST(Ranks, OtherGroupsShareNothing) {
  RankSet run;
  run.add(reduce(0, kX, kGood, {0}), reduce(0, kX, kBad, {0}));
  run.add(reduce(1, kX, kGood, {1}), reduce(1, kBad, kBad, {1}));
  const Comparison result = run.compare();
  EXPECT_EQ(origin(result, 0, "Distributed.all_reduce.0.forward.output.0"),
            Origin::kBorn);
}

// Pipeline parallel: rank 0 computes and sends, rank 1 receives and computes.
Trace sender(const Values& gelu) {
  TraceBuilder b;
  for (int i = 0; i < 5; ++i) {
    b.op("Torch.abs." + std::to_string(i) + ".forward").in(kX).out(kX);
  }
  b.op("Functional.gelu.0.forward").in(kX).out(gelu);
  b.op("Distributed.send.0.forward")
      .in(gelu)
      .value("input.1", "int", "1")
      .out(gelu);
  return b.build(0);
}

Trace receiver(const Values& garbage, const Values& got) {
  TraceBuilder b;
  b.op("Distributed.recv.0.forward")
      .in(garbage)
      .value("input.1", "int", "0")
      .out(got);
  b.op("Functional.relu.0.forward").in(got).out(got);
  return b.build(1);
}

TEST(Ranks, WhatIsReceivedInheritsFromTheSender) {
  RankSet run;
  run.add(sender(kGood), sender(kBad));
  run.add(receiver({7, 7, 7}, kGood), receiver({9, 9, 9}, kBad));
  const Comparison result = run.compare();
  EXPECT_EQ(origin(result, 1, "Distributed.recv.0.forward.output.0"),
            Origin::kInherited);
  EXPECT_EQ(result.first_divergence->name, "Functional.gelu.0.forward");
  EXPECT_EQ(result.counts.born, 1);
}

TEST(Ranks, WhatChangesUnderWayIsBlamedOnTheReceive) {
  RankSet run;
  run.add(sender(kGood), sender(kGood));
  run.add(receiver({7, 7, 7}, kGood), receiver({9, 9, 9}, kBad));
  const Comparison result = run.compare();
  EXPECT_EQ(result.first_divergence->name, "Distributed.recv.0.forward");
  EXPECT_EQ(result.first_divergence->kind, "born");
}

Trace batch(std::int64_t rank, const Values& sent, const Values& got) {
  const std::string peer = std::to_string(1 - rank);
  TraceBuilder b;
  b.op("Distributed.batch_isend_irecv.0.forward");
  const auto entry = [&](const char* kind, const char* leaf,
                         const Values& values) {
    b.tensor(Role::kInput, leaf, f32({3}, values));
    b.last().type = "torch.distributed.P2POp";
    b.last().value =
        std::string("{\"op\":\"") + kind + "\",\"peer\":" + peer + "}";
  };
  entry("isend", "input.0.0", sent);
  entry("irecv", "input.0.1", {static_cast<float>(rank), 5, 6});
  b.tensor(Role::kOutput, "output.0.1", f32({3}, got));
  return b.build(rank);
}

TEST(Ranks, EveryEntryOfABatchIsFollowed) {
  RankSet run;
  run.add(batch(0, kGood, kX), batch(0, kGood, kX));
  run.add(batch(1, kX, kGood), batch(1, kX, kBad));
  EXPECT_EQ(run.compare().first_divergence->kind, "born");

  RankSet inherited;
  inherited.add(batch(0, kGood, kX), batch(0, kBad, kX));
  inherited.add(batch(1, kX, kGood), batch(1, kX, kBad));
  const Comparison result = inherited.compare();
  EXPECT_EQ(
      origin(result, 1, "Distributed.batch_isend_irecv.0.forward.output.0.1"),
      Origin::kInherited);
  EXPECT_EQ(result.first_divergence->kind, "input");
}

// Both ranks have a fault of their own; the one before the exchange is first,
// whatever its position in its own dump.
TEST(Ranks, OrderFollowsTheExchangesNotTheRowNumbers) {
  const auto rank0 = [](const Values& late) {
    TraceBuilder b;
    b.op("Distributed.all_reduce.0.forward").in(kX).out(kX).group({0, 1});
    b.op("Functional.gelu.0.forward").in(kX).out(late);
    return b.build(0);
  };
  const auto rank1 = [](const Values& early) {
    TraceBuilder b;
    for (int i = 0; i < 9; ++i) {
      b.op("Torch.abs." + std::to_string(i) + ".forward").in(kX).out(kX);
    }
    b.op("Functional.silu.0.forward").in(kX).out(early);
    b.op("Distributed.all_reduce.0.forward").in(kX).out(kX).group({0, 1});
    return b.build(1);
  };
  RankSet run;
  run.add(rank0(kGood), rank0(kBad));
  run.add(rank1(kGood), rank1(kBad));
  EXPECT_EQ(run.compare().first_divergence->name, "Functional.silu.0.forward");
}

TEST(Ranks, CallsInContradictoryOrderEnd) {
  const auto rank = [](std::int64_t number, bool swapped) {
    TraceBuilder b;
    for (int i = 0; i < 2; ++i) {
      const bool both = (i == 0) != swapped;
      b.op("Distributed.all_reduce." + std::to_string(i) + ".forward")
          .in(kX)
          .out(both ? kX : kGood)
          .group(both ? std::vector<std::int64_t>{0, 1}
                      : std::vector<std::int64_t>{0, 1, 2});
    }
    b.op("Functional.gelu.0.forward").in(kX).out(kX);
    return b.build(number);
  };
  RankSet run;
  run.add(rank(0, false), rank(0, false));
  run.add(rank(1, true), rank(1, true));
  EXPECT_EQ(run.compare().verdict, Verdict::kMatch);
}

std::vector<TraceLocation> places(
    std::vector<std::pair<std::int64_t, std::int64_t>> list, bool numbered) {
  std::vector<TraceLocation> result;
  for (const auto& [step, rank] : list) {
    result.push_back({"p", step, rank, numbered});
  }
  return result;
}

TEST(Locations, F70PairByNumberAndListWhatHasNoPartner) {
  const auto pairs = pair_locations(places({{0, 0}, {2, 0}, {10, 0}}, true),
                                    places({{2, 0}, {10, 0}, {11, 0}}, true));
  ASSERT_EQ(pairs.size(), 4u);
  EXPECT_EQ(pairs[0].target, -1);
  EXPECT_EQ(pairs[1].golden, 1);
  EXPECT_EQ(pairs[1].target, 0);
  EXPECT_EQ(pairs[2].step, 10);
  EXPECT_EQ(pairs[3].golden, -1);
}

TEST(Locations, PairByPositionWhereOneSideHasNoNumbers) {
  const auto pairs = pair_locations(places({{5, 0}, {6, 0}}, true),
                                    places({{0, 0}, {1, 0}}, false));
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs[1].golden, 1);
  EXPECT_EQ(pairs[1].target, 1);
}

TEST(Locations, OneDumpEachIsMeantWhateverItsNumber) {
  const auto pairs =
      pair_locations(places({{0, 0}}, true), places({{1, 0}}, true));
  ASSERT_EQ(pairs.size(), 1u);
  EXPECT_EQ(pairs[0].target, 0);
}

}  // namespace
}  // namespace assay::test
