// The overflow search's result as the terminal and programs see it.
#include "assay/report/overflow_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/report/overflow_finding_text.h"
#include "assay/report/overflow_json.h"
#include "tests/report/files.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::string golden_text(const std::string& name) {
  return read_text(std::filesystem::path(ASSAY_TEST_DATA) / "report" / name);
}

OverflowLeaf leaf(const std::string& name, double max, double min) {
  OverflowLeaf leaf;
  leaf.leaf = name;
  leaf.dtype = "float16";
  leaf.shape = {8, 512};
  leaf.value.known = true;
  leaf.value.count = 4096;
  leaf.value.max = max;
  leaf.value.min = min;
  return leaf;
}

OverflowFinding finding(OverflowKind kind, std::int64_t rank,
                        const std::string& op) {
  OverflowFinding f;
  f.kind = kind;
  f.rank = rank;
  f.op = op;
  f.leaf = leaf("output.0", 65472, -3);
  f.leaf.value.positive_inf = 12;
  f.dtype_max = 65504;
  return f;
}

// Scores of an attention in float16 that overflow on rank 1.
OverflowReport sample() {
  OverflowReport r;
  r.path = "npu";
  r.steps = {0};
  r.ranks = {0, 1};
  r.verdict = Verdict::kMismatch;
  r.seconds = 0.4;
  OverflowFinding born =
      finding(OverflowKind::kBorn, 1, "Torch.matmul.3.forward");
  OverflowLeaf scale;
  scale.leaf = "input.2";
  scale.text = "0.125";
  OverflowLeaf mask = leaf("input.3", 0, 0);
  mask.value.negative_inf = 1024;
  mask.meaning = Meaning::kMask;
  born.inputs = {leaf("input.0", 310, -290), leaf("input.1", 280, -301), scale,
                 mask};
  born.outputs = {born.leaf};
  born.call_path = {"Module.layers.3.attn.forward.0"};
  born.stack = {"File model/attn.py, line 88, in scores, \n q @ k"};
  r.first = born;
  OverflowFinding arrived =
      finding(OverflowKind::kArrived, 0, "Distributed.all_reduce.0.forward");
  arrived.sender = OverflowSender{1, "Distributed.all_reduce.0.forward"};
  arrived.leaf.value.positive_inf = 0;
  arrived.leaf.value.nan = ValueState::kSome;
  r.found = {arrived, born};
  r.carried = {
      finding(OverflowKind::kPropagated, 1, "Functional.softmax.3.forward"),
      arrived};
  r.near = {
      {0, 1, "Torch.matmul.2.forward.output.0", "float16", 61248, 65504, 4096}};
  r.quantised = {{0, 0, "Functional.quantize.7.forward.output.0",
                  "float8_e4m3fn", 448, 448, 4096, 512, 1024, 40},
                 {0, 1, "Functional.gemm.7.forward.input.0", "float8_e5m2", 12,
                  57344, 4096, 0, 1024, -1}};
  r.unseen = {{0, 1, "Functional.fused.0.forward.output.0",
               "the dump kept only a checksum"}};
  r.counts.ops = 1200;
  r.counts.records = 41203;
  r.counts.born = 1;
  r.counts.arrived = 1;
  r.counts.propagated = 41;
  r.counts.absorbed = 3;
  r.counts.masked = 12;
  r.counts.near = 1;
  r.counts.quantised = 2;
  r.counts.unseen = 1;
  return r;
}

TEST(OverflowText, ShowsTheFirstAndWhatItWentOnTo) {
  EXPECT_EQ(render_overflow(sample()), golden_text("overflow.txt"));
}

TEST(OverflowText, QuietIsOneLine) {
  OverflowTextOptions options;
  options.quiet = true;
  EXPECT_EQ(render_overflow(sample(), options),
            "overflow Torch.matmul.3.forward   born 1   entered 0   arrived 1  "
            " unknown 0   propagated 41   absorbed 3   masked 12   not looked "
            "at 1\n");
}

TEST(OverflowText, WhatWasNotLookedAtIsNotFinite) {
  OverflowReport r = sample();
  r.first.reset();
  r.found.clear();
  r.carried.clear();
  r.verdict = Verdict::kIncomplete;
  OverflowTextOptions options;
  options.columns = 0;
  const std::string text = render_overflow(r, options);
  EXPECT_THAT(text, HasSubstr("incomplete   1 of 41,203 records could not be "
                              "looked at; the others are finite"));
  EXPECT_THAT(text, HasSubstr("not looked at: 1 record, the dump kept only a "
                              "checksum; first Functional.fused"));
  EXPECT_THAT(render_overflow(OverflowReport{}),
              HasSubstr("incomplete   nothing was looked at"));
}

TEST(OverflowText, LimitsItsListsAndSaysHowMuchMoreThereIs) {
  OverflowReport r = sample();
  for (int i = 0; i < 4; ++i)
    r.found.push_back(finding(OverflowKind::kBorn, 1,
                              "Torch.exp." + std::to_string(i) + ".forward"));
  OverflowTextOptions options;
  options.limit = 2;
  const std::string text = render_overflow(r, options);
  EXPECT_THAT(text, HasSubstr("Torch.exp.0.forward"));
  EXPECT_THAT(text, Not(HasSubstr("Torch.exp.1.forward")));
  EXPECT_THAT(text, HasSubstr("also 3 more, --limit N shows them"));
}

TEST(OverflowText, EscapesNames) {
  OverflowReport r = sample();
  r.first->op = "evil\x1b[2J\nfinite";
  r.unseen[0].why = "\x1b]0;x";
  const std::string text = render_overflow(r);
  EXPECT_THAT(text, HasSubstr("evil\\x1b[2J\\x0afinite"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(OverflowText, TellsWhatIsNotFinite) {
  ValueState value;
  EXPECT_EQ(special_text(value), "");
  value.count = 4096;
  value.nan = 1;
  value.negative_inf = 1234;
  EXPECT_EQ(special_text(value), "1 NaN, 1,234 -inf of 4,096 elements");
  value.nan = ValueState::kSome;
  value.negative_inf = 0;
  EXPECT_EQ(special_text(value), "NaN");
}

TEST(OverflowJson, HoldsWhatTheTextHolds) {
  const std::string json = overflow_json(sample());
  EXPECT_THAT(json, StartsWith(R"({"schema_version":1,"verdict":"overflow",)"));
  EXPECT_THAT(json, HasSubstr(R"("first":{"kind":"born","step":0,"rank":1,)"
                              R"("name":"Torch.matmul.3.forward","leaf":)"
                              R"({"leaf":"output.0","dtype":"float16",)"
                              R"("shape":[8,512],"meaning":"value",)"
                              R"("known":true,"pos_inf":12,"max":65472.0,)"
                              R"("min":-3.0},"dtype_max":65504.0,)"));
  EXPECT_THAT(json, HasSubstr(R"("nan":true)"));  // how many is not known
  EXPECT_THAT(json, HasSubstr(R"("from_rank":1)"));
  EXPECT_THAT(json, HasSubstr(R"({"leaf":"input.2","value":"0.125"})"));
  EXPECT_THAT(json,
              HasSubstr(R"("saturated":512,"zeros":1024,"underflow":40)"));
  EXPECT_THAT(overflow_json(OverflowReport{}), HasSubstr(R"("first":null)"));
}

}  // namespace
}  // namespace assay
