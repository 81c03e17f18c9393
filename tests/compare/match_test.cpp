// Pairing of records: names, rules, index-free, and nothing dropped.
#include "assay/compare/match.h"

#include <gtest/gtest.h>

#include <chrono>

#include "assay/base/error.h"
#include "synthetic.h"

namespace assay::test {
namespace {

Trace calls(const std::vector<std::string>& names,
            const std::string& parent = "") {
  TraceBuilder builder;
  for (const std::string& name : names) {
    builder.op(name, parent)
        .statistics(Role::kOutput, "output.0", {2}, 1, 0, 0.5, 1);
  }
  if (!parent.empty()) builder.op(parent);
  return builder.build();
}

// "golden -> target" per pair, "-" where a side has none.
std::vector<std::string> names(const Trace& golden, const Trace& target,
                               const Matching& matching) {
  std::vector<std::string> text;
  for (const RecordPair& pair : matching.pairs) {
    text.push_back(
        (pair.golden < 0 ? "-" : golden.name(golden.records[pair.golden])) +
        " -> " +
        (pair.target < 0 ? "-" : target.name(target.records[pair.target])));
  }
  return text;
}

std::vector<std::string> match(const Trace& golden, const Trace& target,
                               const std::string& yaml = "",
                               bool fuzzy = false) {
  const MapRules rules =
      yaml.empty() ? MapRules{} : parse_map_rules(yaml, "map.yaml");
  return names(golden, target, match_traces(golden, target, rules, fuzzy));
}

using Names = std::vector<std::string>;

TEST(Match, PairsEqualNamesWhateverTheirOrder) {
  EXPECT_EQ(match(calls({"Torch.a.0.forward", "Torch.b.0.forward"}),
                  calls({"Torch.b.0.forward", "Torch.a.0.forward"})),
            (Names{"Torch.a.0.forward.output.0 -> Torch.a.0.forward.output.0",
                   "Torch.b.0.forward.output.0 -> "
                   "Torch.b.0.forward.output.0"}));
}

TEST(Match, KeepsUnmatchedRowsOfBothSidesInTheirPlace) {
  EXPECT_EQ(match(calls({"Torch.a.0.forward", "Torch.b.0.forward"}),
                  calls({"Torch.a.0.forward", "Torch.x.0.forward"})),
            (Names{"Torch.a.0.forward.output.0 -> Torch.a.0.forward.output.0",
                   "- -> Torch.x.0.forward.output.0",
                   "Torch.b.0.forward.output.0 -> -"}));
}

TEST(Match, F69NeverMatchesUnequalNamesByIndex) {
  EXPECT_EQ(match(calls({"Torch.a.0.forward"}), calls({"Torch.b.0.forward"})),
            (Names{"- -> Torch.b.0.forward.output.0",
                   "Torch.a.0.forward.output.0 -> -"}));
}

TEST(Match, F67PairsRepeatedNamesInOrderAndDropsNone) {
  const Trace golden = calls({"Torch.a.0.forward", "Torch.a.0.forward"});
  const Trace target = calls({"Torch.a.0.forward"});
  const Matching matching = match_traces(golden, target, {}, false);
  ASSERT_EQ(matching.pairs.size(), 2u);
  EXPECT_EQ(matching.pairs[0].target, 0);
  EXPECT_EQ(matching.pairs[1].target, -1);
}

TEST(Match, PairsLeavesByNameInsideAnOperator) {
  TraceBuilder golden, target;
  golden.op("Torch.a.0.forward").in({1}).value("input.1", "int", "2").out({1});
  target.op("Torch.a.0.forward").in({1}).out({1}).value("input.2", "int", "3");
  EXPECT_EQ(match(golden.build(), target.build()),
            (Names{"Torch.a.0.forward.input.0 -> Torch.a.0.forward.input.0",
                   "Torch.a.0.forward.input.1 -> -",
                   "Torch.a.0.forward.output.0 -> Torch.a.0.forward.output.0",
                   "- -> Torch.a.0.forward.input.2"}));
}

TEST(Map, PairsARecord) {
  EXPECT_EQ(match(calls({"Mint.add.0.forward"}), calls({"Torch.add.0.forward"}),
                  "Mint.add.0.forward.output.0: Torch.add.0.forward.output.0"),
            (Names{"Mint.add.0.forward.output.0 -> "
                   "Torch.add.0.forward.output.0"}));
}

TEST(Map, ARecordRuleWinsOverEqualNames) {
  EXPECT_EQ(match(calls({"Torch.a.0.forward", "Torch.a.1.forward"}),
                  calls({"Torch.a.0.forward", "Torch.a.1.forward"}),
                  "Torch.a.0.forward.output.0: Torch.a.1.forward.output.0")[0],
            "Torch.a.0.forward.output.0 -> Torch.a.1.forward.output.0");
}

TEST(Map, PairsACallAModuleAndAnApi) {
  EXPECT_EQ(match(calls({"Torch.a.0.forward"}), calls({"Torch.b.7.forward"}),
                  "Torch.a.0.forward: Torch.b.7.forward"),
            (Names{"Torch.a.0.forward.output.0 -> "
                   "Torch.b.7.forward.output.0"}));
  EXPECT_EQ(
      match(calls({"Module.fc2.Dense.forward.1"}),
            calls({"Module.fc3.Linear.forward.1"}), "fc2.Dense: fc3.Linear"),
      (Names{"Module.fc2.Dense.forward.1.output.0 -> "
             "Module.fc3.Linear.forward.1.output.0"}));
  EXPECT_EQ(match(calls({"Functional.abs.3.forward"}),
                  calls({"Torch.abs.3.forward"}), "Functional.abs: Torch.abs"),
            (Names{"Functional.abs.3.forward.output.0 -> "
                   "Torch.abs.3.forward.output.0"}));
}

TEST(Map, AFullNameWinsOverPartsOfNames) {
  EXPECT_EQ(
      match(calls({"Module.a.Dense.forward.0", "Module.b.Dense.forward.0"}),
            calls({"Module.x.Dense.forward.0", "Module.b.Linear.forward.0"}),
            "Dense: Linear\na.Dense: x.Dense"),
      (Names{"Module.a.Dense.forward.0.output.0 -> "
             "Module.x.Dense.forward.0.output.0",
             "Module.b.Dense.forward.0.output.0 -> "
             "Module.b.Linear.forward.0.output.0"}));
}

TEST(Map, APartOfANameLeavesEqualNamesAlone) {
  EXPECT_EQ(
      match(calls({"Module.a.Dense.forward.0"}),
            calls({"Module.a.Dense.forward.0", "Module.a.Linear.forward.0"}),
            "Dense: Linear")[0],
      "Module.a.Dense.forward.0.output.0 -> "
      "Module.a.Dense.forward.0.output.0");
}

TEST(Map, LayersRenameAttributesOfTheirClassOnly) {
  const Trace golden = calls({"Module.l.0.attn.qkv.Dense.forward.0",
                              "Module.l.0.mlp.qkv.Dense.forward.0",
                              "Module.l.0.attn.Attention.forward.0",
                              "Module.l.0.mlp.MLP.forward.0"});
  const Trace target = calls({"Module.l.0.attn.query_key.Linear.forward.0",
                              "Module.l.0.mlp.qkv.Dense.forward.0",
                              "Module.l.0.attn.Attention.forward.0",
                              "Module.l.0.mlp.MLP.forward.0"});
  const auto rows = match(golden, target, "Attention: {qkv: query_key}");
  EXPECT_EQ(rows[0],
            "Module.l.0.attn.qkv.Dense.forward.0.output.0 -> "
            "Module.l.0.attn.query_key.Linear.forward.0.output.0");
  EXPECT_EQ(rows[1],
            "Module.l.0.mlp.qkv.Dense.forward.0.output.0 -> "
            "Module.l.0.mlp.qkv.Dense.forward.0.output.0");
}

TEST(Map, TellsWhichRulesWereOfNoUse) {
  const MapRules rules = parse_map_rules("zzz: yyy\nDense: Linear", "m.yaml");
  const Matching matching =
      match_traces(calls({"Module.a.Dense.forward.0"}),
                   calls({"Module.a.Linear.forward.0"}), rules, false);
  EXPECT_EQ(matching.rule_used, (std::vector<bool>{false, true}));
}

std::string error_of(const std::string& yaml) {
  try {
    parse_map_rules(yaml, "m.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    return error.what();
  }
  return "";
}

TEST(Map, RefusesWhatIsNoRuleNamingTheLine) {
  EXPECT_EQ(error_of("a: b\nc: [d]"),
            "m.yaml:2: expected a name or {attribute: attribute}, found a "
            "sequence");
  EXPECT_EQ(error_of("a: b\na: c"), "m.yaml:2: 'a' is mapped twice");
  EXPECT_EQ(error_of("- a"),
            "m.yaml:1: expected a mapping of 'golden name: target name'");
  EXPECT_EQ(error_of("\n\nT.a.0.forward.input.0: T.a.0.forward"),
            "m.yaml:3: 'T.a.0.forward.input.0' names a record, "
            "'T.a.0.forward' an operator call");
  EXPECT_EQ(error_of("a:"),
            "m.yaml:1: expected a name or {attribute: attribute}, found "
            "nothing (write '' for no text)");
  EXPECT_EQ(error_of("A: {x: {y: z}}"),
            "m.yaml:1: expected an attribute, found a mapping");
  EXPECT_NE(error_of("a: 'b"), "");
}

TEST(Fuzzy, IgnoresShiftedCallIndices) {
  const auto rows = match(calls({"Torch.add.0.forward", "Torch.mul.0.forward",
                                 "Torch.add.1.forward"}),
                          calls({"Torch.add.5.forward", "Torch.mul.2.forward",
                                 "Torch.add.6.forward"}),
                          "", true);
  EXPECT_EQ(rows, (Names{"Torch.add.0.forward.output.0 -> "
                         "Torch.add.5.forward.output.0",
                         "Torch.mul.0.forward.output.0 -> "
                         "Torch.mul.2.forward.output.0",
                         "Torch.add.1.forward.output.0 -> "
                         "Torch.add.6.forward.output.0"}));
}

TEST(Fuzzy, AnInsertedOperatorShiftsNothingBehindIt) {
  const auto rows = match(calls({"Torch.mul.0.forward", "Torch.add.0.forward",
                                 "Torch.exp.0.forward", "Torch.add.1.forward"}),
                          calls({"Torch.add.0.forward", "Torch.mul.0.forward",
                                 "Torch.add.1.forward", "Torch.exp.0.forward",
                                 "Torch.add.2.forward"}),
                          "", true);
  EXPECT_EQ(rows, (Names{"- -> Torch.add.0.forward.output.0",
                         "Torch.mul.0.forward.output.0 -> "
                         "Torch.mul.0.forward.output.0",
                         "Torch.add.0.forward.output.0 -> "
                         "Torch.add.1.forward.output.0",
                         "Torch.exp.0.forward.output.0 -> "
                         "Torch.exp.0.forward.output.0",
                         "Torch.add.1.forward.output.0 -> "
                         "Torch.add.2.forward.output.0"}));
}

TEST(Fuzzy, StaysInTheLayer) {
  const auto rows = match(
      calls({"Torch.add.0.forward"}, "Module.a.Block.forward.0"),
      calls({"Torch.add.1.forward"}, "Module.b.Block.forward.0"), "", true);
  EXPECT_EQ(rows, (Names{"- -> Torch.add.1.forward.output.0",
                         "Torch.add.0.forward.output.0 -> -"}));
}

TEST(Fuzzy, SaysWhereOrderAloneDecided) {
  TraceBuilder golden, target;
  for (int i = 0; i < 2; ++i) {
    golden.op("Torch.add." + std::to_string(i) + ".forward").out({1, 2});
  }
  for (int i = 4; i < 7; ++i) {
    target.op("Torch.add." + std::to_string(i) + ".forward").out({1, 2, 3});
  }
  RankSet run;
  run.options.fuzzy = true;
  run.add(golden.build(), target.build());
  const Comparison result = run.compare();
  EXPECT_EQ(result.rows.size(), 3u);
  EXPECT_TRUE(
      has_reason(row(result, "Torch.add.0.forward.output.0"), "paired"));
  EXPECT_EQ(result.counts.mismatch, 2);  // shapes differ
  EXPECT_EQ(result.counts.incomplete, 1);
}

TEST(Fuzzy, Pairs200kRowsInLinearTime) {
  constexpr int kCalls = 200000;
  std::vector<std::string> golden_names, target_names;
  for (int i = 0; i < kCalls; ++i) {
    const std::string api = "op" + std::to_string(i % 97);
    golden_names.push_back("Torch." + api + "." + std::to_string(i) +
                           ".forward");
    if (i % 1000 == 7) continue;
    target_names.push_back("Torch." + api + "." + std::to_string(i + 31) +
                           ".forward");
  }
  const Trace golden = calls(golden_names);
  const Trace target = calls(target_names);
  const auto start = std::chrono::steady_clock::now();
  const Matching matching = match_traces(golden, target, {}, true);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - start;
  RecordProperty("seconds", std::to_string(seconds.count()));
  EXPECT_LT(seconds.count(), 3.0);
  ASSERT_EQ(matching.pairs.size(), static_cast<std::size_t>(kCalls));
  int unmatched = 0;
  for (const RecordPair& pair : matching.pairs) {
    if (pair.target < 0) {
      ++unmatched;
      EXPECT_EQ(pair.golden % 1000, 7);
    }
  }
  EXPECT_EQ(unmatched, kCalls / 1000);
}

}  // namespace
}  // namespace assay::test
