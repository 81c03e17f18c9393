// Snapshots: written, read back, merged; and hostile ones.
#include "assay/env/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay::env {
namespace {

using testing::HasSubstr;

Snapshot sample() {
  Snapshot made;
  made.taken = "2026-11-30T00:00:00Z";
  auto& options = made[Section::kHyperparameters];
  options.collected = true;
  options.missing = {"run.sh:3: reads env.sh, which was not read"};
  options.values = {{"bf16", {Kind::kFlag, "given", "run.sh:2"}},
                    {"gpus", {Kind::kUnknown, "$(nproc)", "run.sh:1"}},
                    {"lr", {Kind::kNumber, "1e-4", ""}},
                    {"moe", {Kind::kBool, "false", ""}},
                    {"name", {Kind::kText, "a \"b\"\n\x01", "a.yaml"}},
                    {"none", {Kind::kNull, "null", ""}}};
  made[Section::kEnvironment].collected = true;
  made[Section::kEnvironment].scope = Scope::kListed;
  TensorPrint weight;
  weight.name = "layers.0.weight";
  weight.role = "parameter";
  weight.dtype = "float32";
  weight.shape = {2, 3};
  weight.hash = "00ff";
  weight.as = {{"values", "aa"}};
  weight.statistics = {{"max", "1.5"}};
  weight.placement = "Shard(0), rank 1 of 2";
  made.weights = {weight};
  made.batches = {{{weight}}, {}};
  made.draws = {{"torch.randn", "2, 3", "ab", 0},
                {"random.random", "", "", -1}};
  made.draw_count = 3;
  made.draw_hash = "beef";
  made.stacks = {{"t.py:3 in main"}};
  return made;
}

TEST(Snapshot, IsReadBackAsItWasWritten) {
  const Snapshot made = sample();
  const std::string text = to_json(made);
  const Snapshot read = parse_snapshot(text, "s.json");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.path, "s.json");
  EXPECT_EQ(read[Section::kHyperparameters].values,
            made[Section::kHyperparameters].values);
  EXPECT_EQ(read[Section::kEnvironment].scope, Scope::kListed);
  EXPECT_FALSE(read[Section::kSwitches].collected);
  EXPECT_EQ(read.draws[1].stack, -1);
  EXPECT_EQ(read.batches.size(), 2U);
}

TEST(Snapshot, LaterVersionsMaySayMore) {
  const Snapshot read = parse_snapshot(
      R"({"format":"assay-env","version":1,"new":{"a":[1]},"sections":{
          "switches":{"collected":true,"new":1,
            "values":{"a":{"value":1,"new":[]}, "b":NaN}}}})",
      "s");
  EXPECT_EQ(read[Section::kSwitches].values.at("a").text, "1");
  EXPECT_EQ(read[Section::kSwitches].values.at("b").kind, Kind::kText);
}

TEST(Snapshot, HostileOnesAreRefused) {
  const std::string head = R"({"format":"assay-env","version":1,)";
  const std::string deep(10000, '[');
  for (const std::string& text : std::vector<std::string>{
           "",
           "[]",
           "{}",
           "null",
           R"({"format":"assay-env"})",
           R"({"format":"assay-env","version":2})",
           R"({"format":"other","version":1})",
           head + R"("sections":{"none":{}}})",
           head + R"("sections":{"data":{"values":{"a":1,"a":2}}}})",
           head + R"("sections":{"data":{"values":{"a":[]}}}})",
           head + R"("sections":{"data":{"values":{"a":{}}}}})",
           head + R"("sections":{"data":{"collected":1}}})",
           head + R"("sections":{"data":{"collected":true},"data":{}}})",
           head + R"("sections":{"environment":{"scope":"x"}}})",
           head + R"("weights":[1]})",
           head + R"("weights":[{"shape":[-1]}]})",
           head + R"("weights":[{"shape":[1e3]}]})",
           head + R"("weights":[{"shape":[99999999999999999999]}]})",
           head + R"("batches":[{}]})",
           head + R"("draws":{"count":1,"first":[{"stack":0}]}})",
           head + R"("draws":{"count":0,"first":[{}]}})",
           head + "\"x\":" + deep}) {
    EXPECT_THROW(parse_snapshot(text, "s"), Error) << text.substr(0, 80);
  }
}

TEST(Snapshot, CutAnywhereItIsAnError) {
  const std::string text = to_json(sample());
  for (std::size_t n = 0; n + 2 < text.size(); ++n) {
    try {
      parse_snapshot(std::string_view(text).substr(0, n), "s");
      ADD_FAILURE() << "passes when cut to " << n;
    } catch (const Error& error) {
      ASSERT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
  }
}

TEST(Snapshot, MergingTakesTheLaterValue) {
  Snapshot into = sample(), more;
  more[Section::kHyperparameters].values["lr"] = {Kind::kNumber, "2e-4", ""};
  more[Section::kSwitches].collected = true;
  more.draw_count = 9;
  merge(into, more);
  EXPECT_EQ(into[Section::kHyperparameters].values.at("lr").text, "2e-4");
  EXPECT_TRUE(into[Section::kSwitches].collected);
  EXPECT_EQ(into.draw_count, 3);
}

TEST(Snapshot, SectionsByName) {
  EXPECT_EQ(section_named("weights"), Section::kWeights);
  EXPECT_THROW(section_named("weight"), Error);
}

}  // namespace
}  // namespace assay::env
