#include "assay/conform/report/run_json.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "tests/conform/run_sample.h"
#include "tests/report/files.h"

namespace assay::conform {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string text_of(const RunResult& run) {
  return written([&](const auto& path) { write_run(run, path); }, "run.json");
}

RunResult read_text_of(const std::string& text) {
  const auto path = scratch("read.json");
  std::ofstream(path, std::ios::binary) << text;
  return read_run(path);
}

std::string refusal(const std::string& text) {
  try {
    read_text_of(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kRefused);
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from,
                     const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(RunTally, CountsOnlyComparedCasesAsMatches) {
  RunResult run = run_sample();
  const Tally all = tally(run);
  EXPECT_EQ(all.match, 3);
  EXPECT_EQ(all.mismatch, 3);
  EXPECT_EQ(all.incomplete, 2);
  EXPECT_EQ(all.total(), 8);
  // A crash that claims to match does not.
  run.modules[1].cases[2].verdict = Verdict::kMatch;
  EXPECT_EQ(tally(run).incomplete, 2);
}

TEST(RunTally, WorstDecides) {
  RunResult run = run_sample();
  EXPECT_EQ(run.verdict, Verdict::kMismatch);
  EXPECT_EQ(run.modules[0].verdict, Verdict::kMatch);
  run.modules.resize(1);
  conclude(run);
  EXPECT_EQ(run.verdict, Verdict::kMatch);
}

TEST(RunTally, WhatDidNotRunIsIncomplete) {
  RunResult nothing;
  conclude(nothing);
  EXPECT_EQ(nothing.verdict, Verdict::kIncomplete);
  RunResult run = run_sample();
  run.modules.resize(1);
  run.modules.emplace_back();  // a module without a single case
  conclude(run);
  EXPECT_EQ(run.verdict, Verdict::kIncomplete);
  run.modules.pop_back();
  run.interrupted = true;
  conclude(run);
  EXPECT_EQ(run.verdict, Verdict::kIncomplete);
  run.interrupted = false;
  for (CaseResult& c : run.modules[0].cases) c.verdict = Verdict::kEmpty;
  conclude(run);
  EXPECT_EQ(run.verdict, Verdict::kIncomplete);
}

TEST(RunJson, HasTheDocumentedKeys) {
  const json run = json::parse(text_of(run_sample()));
  EXPECT_EQ(run["schema"], "assay-conform-run");
  EXPECT_EQ(run["schema_version"], 1);
  EXPECT_EQ(run["verdict"], "mismatch");
  EXPECT_EQ(run["counts"]["match"], 3);
  EXPECT_EQ(run["counts"]["total"], 8);
  EXPECT_EQ(
      run["endings"],
      (json{{"compared", 5}, {"crashed", 1}, {"refused", 1}, {"stale", 1}}));
  EXPECT_EQ(run["target"]["environment"]["isa"], "avx512");
  const json& linear = run["modules"][1];
  EXPECT_EQ(linear["worst"]["case"], "small-3f09a1c2");
  EXPECT_EQ(linear["worst"]["check"], "y");
  const json& c = linear["cases"][1];
  EXPECT_EQ(c["parameters"]["shape"], (json{128, 256}));
  EXPECT_EQ(c["seed"], "18364758544493064720");
  EXPECT_EQ(c["again"],
            "assay conform run --store goldens --worker 'assay worker' "
            "--only linear/small-3f09a1c2");
  EXPECT_EQ(c["checks"][0]["criterion"], "alpha");
  EXPECT_FALSE(c["checks"][1].contains("norm_l2"));  // of a contract field
  EXPECT_FALSE(linear["cases"][0].contains("again"));
  EXPECT_EQ(run["modules"][2]["cases"][0]["checks"][0]["norm_l2"], "inf");
}

TEST(RunJson, LooksLikeTheExample) {
  EXPECT_EQ(text_of(run_sample()),
            read_text(std::string(ASSAY_TEST_DATA) + "/conform/run.json"));
}

TEST(RunJson, ReadsBackWhatItWrote) {
  const RunResult run = run_sample();
  const std::string text = text_of(run);
  const RunResult back = read_text_of(text);
  EXPECT_EQ(text_of(back), text);
  const CaseResult& a = run.modules[1].cases[1];
  const CaseResult& b = back.modules[1].cases[1];
  EXPECT_EQ(b.subject.parameters, a.subject.parameters);
  EXPECT_EQ(b.subject.seed, a.subject.seed);
  EXPECT_EQ(b.checks[0].norm_l2, a.checks[0].norm_l2);
  EXPECT_TRUE(std::isnan(b.checks[1].norm_l2));
  EXPECT_EQ(back.modules[2].cases[0].log, kHostile);
  EXPECT_EQ(back.golden.environment, run.golden.environment);
}

TEST(RunJson, KeepsBytesThatAreNoUtf8) {
  RunResult run = run_sample();
  run.warnings = {"\xff\xfe\xEF\xBF\xBD", "plain"};
  EXPECT_EQ(read_text_of(text_of(run)).warnings, run.warnings);
}

TEST(RunJson, RefusesTruncations) {
  RunResult run = run_sample();
  run.modules.resize(1);
  conclude(run);
  const std::string text = text_of(run);
  for (std::size_t i = 0; i + 2 < text.size(); i += 7)
    EXPECT_NE(refusal(text.substr(0, i)), "accepted") << i;
}

TEST(RunJson, RefusesAVerdictThatItsCasesDoNotBear) {
  const std::string text = text_of(run_sample());
  EXPECT_THAT(refusal(replaced(text, "\"verdict\":\"mismatch\"",
                               "\"verdict\":\"match\"")),
              HasSubstr("verdict: is not that of its cases, mismatch"));
  EXPECT_THAT(
      refusal(replaced(text, "\"verdict\":\"incomplete\",\"ending\":\"cras",
                       "\"verdict\":\"match\",\"ending\":\"cras")),
      HasSubstr("modules[1].cases[2].verdict: match, but the case was not"));
  EXPECT_THAT(
      refusal(replaced(text, "\"verdict\":\"mismatch\",\"ending\":\"comp",
                       "\"verdict\":\"match\",\"ending\":\"comp")),
      HasSubstr("verdict: match, but its check y is none"));
}

// The first case with its checks, as `edit` leaves it.
std::string edited(const std::function<void(json& module)>& edit) {
  json run = json::parse(text_of(run_sample()));
  edit(run["modules"][0]);
  return run.dump();
}

TEST(RunJson, RefusesAMatchWithoutEvidence) {
  EXPECT_THAT(
      refusal(edited([](json& m) { m["cases"][0]["checks"] = json::array(); })),
      HasSubstr("match, but none of its checks is one"));
  EXPECT_THAT(refusal(edited([](json& m) {
                for (json& check : m["cases"][0]["checks"])
                  check["verdict"] = "empty";
              })),
              HasSubstr("match, but none of its checks is one"));
  EXPECT_THAT(refusal(edited([](json& m) {
                m["cases"][0]["verdict"] = "empty";
                m["cases"][0]["checks"][0]["verdict"] = "mismatch";
              })),
              HasSubstr("empty, but its check y is none"));
}

TEST(RunJson, MissesACaseThatWasTakenOut) {
  EXPECT_THAT(refusal(edited([](json& m) { m["cases"].erase(1); })),
              HasSubstr("counts.match: is not that of its cases, 2"));
}

TEST(RunJson, NamesTheFieldThatIsWrong) {
  const std::string text = text_of(run_sample());
  EXPECT_THAT(refusal(replaced(text, "\"steps\":1", "\"steps\":\"one\"")),
              HasSubstr("read.json: modules[0].cases[0].steps: \\\"one\\\", "
                        "expected an integer"));
  EXPECT_THAT(refusal(replaced(text, "\"tier\":\"small\"", "\"tier\":\"\"")),
              HasSubstr("modules[0].tier: is no word of this field"));
  EXPECT_THAT(
      refusal(replaced(text, "\"schema_version\":1", "\"schema_version\":2")),
      HasSubstr("schema_version: expected 1; a newer assay"));
  EXPECT_THAT(refusal(replaced(text, "\"store\":\"goldens\",", "")),
              HasSubstr("read.json: store: is missing"));
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object"));
}

TEST(RunJson, IgnoresKeysOfLaterVersions) {
  const std::string text = text_of(run_sample());
  const std::string more =
      replaced(text, "\"store\":", "\"later\":{\"x\":[1]},\"store\":");
  EXPECT_EQ(text_of(read_text_of(more)), text);
}

TEST(RunFile, IsTheRunJsonOfAFolder) {
  const auto path = scratch("run.json");
  write_run(run_sample(), path);
  EXPECT_EQ(run_file(path.parent_path()), path);
  EXPECT_EQ(run_file(path), path);
  std::filesystem::remove(path);
  EXPECT_THROW(run_file(path.parent_path()), Error);
}

}  // namespace
}  // namespace assay::conform
