#include "assay/report/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "assay/base/parallel.h"
#include "tests/report/files.h"
#include "tests/report/sample.h"

namespace assay {
namespace {

using nlohmann::json;

std::string text_of(const Comparison& c) {
  return written([&](const auto& path) { write_json(c, path); }, "report.json");
}

json parsed(const Comparison& c) { return json::parse(text_of(c)); }

TEST(Json, HasTheDocumentedTopLevel) {
  const json j = parsed(gelu_sample());
  EXPECT_EQ(j["schema_version"], 1);
  EXPECT_EQ(j["verdict"], "mismatch");
  EXPECT_EQ(j["counts"]["match"], 11);
  EXPECT_EQ(j["counts"]["mismatch"], 3);
  EXPECT_EQ(j["counts"]["born"], 1);
  EXPECT_EQ(j["counts"]["total"], 18);
  EXPECT_EQ(j["standard"]["name"], "assay");
  EXPECT_EQ(j["standard"]["date"], "2026-09-01");
  EXPECT_EQ(j["golden"]["path"], "gpu");
  EXPECT_EQ(j["target"]["bytes"], 3'900'000'000);
  EXPECT_EQ(j["warnings"].size(), 1u);
  EXPECT_EQ(j["groups"][1]["rank"], 1);
  EXPECT_EQ(j["rows"].size(), 18u);
}

TEST(Json, IsTheSameInMemory) {
  EXPECT_EQ(json_text(gelu_sample()), text_of(gelu_sample()));
  EXPECT_EQ(json_text(Comparison{}), text_of(Comparison{}));
}

TEST(Json, NamesTheFirstDivergence) {
  const json d = parsed(gelu_sample())["first_divergence"];
  EXPECT_EQ(d["name"], "Module.layers.3.mlp.GELU.forward.0");
  EXPECT_EQ(d["kind"], "born");
  EXPECT_EQ(d["reason"], "|alpha - 1| 2.0e-04 over 1.1e-05");
  EXPECT_EQ(d["row"], 5);
  EXPECT_EQ(d["rank"], 0);
  EXPECT_EQ(d["call_path"].size(), 3u);
  EXPECT_TRUE(parsed(Comparison{})["first_divergence"].is_null());
}

TEST(Json, GivesARowItsFigures) {
  const json row = parsed(gelu_sample())["rows"][5];
  EXPECT_EQ(row["name"], "Module.layers.3.mlp.GELU.forward.0.output.0");
  EXPECT_FALSE(row.contains("target_name"));
  EXPECT_EQ(row["op"], "Module.layers.3.mlp.GELU.forward.0");
  EXPECT_EQ(row["role"], "output");
  EXPECT_EQ(row["verdict"], "mismatch");
  EXPECT_EQ(row["origin"], "born");
  EXPECT_EQ(row["evidence"], "tensor");
  EXPECT_EQ(row["max_abs"], 4.7e-4);
  EXPECT_EQ(row["index"], (json::array({3, 17, 201})));
  EXPECT_EQ(row["golden_at_index"], -1.4333e-06);
  EXPECT_EQ(row["alpha"], 0.9998);
  EXPECT_EQ(row["bias"], -2.1e-05);
  EXPECT_EQ(row["norm_l2"], 0x1p-12);
  EXPECT_EQ(row["amplification"], 1024);
  EXPECT_EQ(row["golden"]["dtype"], "torch.float32");
  EXPECT_EQ(row["golden"]["shape"], (json::array({4, 32, 256})));
  EXPECT_EQ(row["target"]["max"], 3.250244140625);
  EXPECT_EQ(row["reasons"][1]["criterion"], "element_bound");
  EXPECT_EQ(row["reasons"][1]["index"], (json::array({3, 17, 201})));
  EXPECT_EQ(row["reasons"][2]["note"], true);
  EXPECT_EQ(row["worst_block32"]["begin"], 29128 / 32 * 32);
}

TEST(Json, GivesAnEqualRowItsZeros) {
  const json row = parsed(gelu_sample())["rows"][0];
  EXPECT_EQ(row["bitwise_equal"], true);
  EXPECT_EQ(row["max_abs"], 0);
  EXPECT_EQ(row["ulp_max"], 0);
  EXPECT_EQ(row["sqnr"], "inf");
}

TEST(Json, LeavesTheMissingSideOut) {
  const json row = parsed(gelu_sample())["rows"][8];
  EXPECT_EQ(row["verdict"], "incomplete");
  EXPECT_TRUE(row.contains("golden"));
  EXPECT_FALSE(row.contains("target"));
  EXPECT_FALSE(row.contains("max_abs"));
}

// The relative figures of a tensor of zeros are not finite and must not make
// the document invalid.
TEST(Json, F69NonFiniteFiguresAreStrings) {
  Comparison c = gelu_sample();
  c.rows[5].stats->max_rel = INFINITY;
  c.rows[5].stats->bias = NAN;
  c.rows[5].golden.stats.min = -INFINITY;
  const json row = parsed(c)["rows"][5];
  EXPECT_EQ(row["max_rel"], "inf");
  EXPECT_EQ(row["bias"], "nan");
  EXPECT_EQ(row["golden"]["min"], "-inf");
}

TEST(Json, F53KeepsIntegerDifferencesExact) {
  Comparison c = gelu_sample();
  c.rows[5].stats->judged_dtype = DType::kU64;
  c.rows[5].stats->max_abs_int = 18446744073709551615u;
  EXPECT_EQ(parsed(c)["rows"][5]["max_abs_int"], 18446744073709551615u);
}

TEST(Json, EscapesHostileNamesReversibly) {
  Comparison c = gelu_sample();
  c.rows[0].golden.name = "a\"\\\n\x01\xFF\xEF\xBF\xBD";
  EXPECT_EQ(parsed(c)["rows"][0]["name"],
            "a\"\\\n\x01\xEF\xBF\xBD"
            "ff\xEF\xBF\xBD"
            "ef\xEF\xBF\xBD"
            "bf\xEF\xBF\xBD"
            "bd");
}

TEST(Json, NamesTheComponentOfComplexTensors) {
  Comparison c = gelu_sample();
  for (RowSide* side : {&c.rows[5].golden, &c.rows[5].target}) {
    side->facts.dtype = DType::kC64;
    side->facts.shape = {16384};
  }
  c.rows[5].stats->max_abs_index = 7;
  const json row = parsed(c)["rows"][5];
  EXPECT_EQ(row["index"], json::array({3}));
  EXPECT_EQ(row["component"], "imag");
}

TEST(Json, IsTheSameForAnyNumberOfThreads) {
  const Comparison c = large_sample(5000);
  const std::string all = text_of(c);
  set_thread_count(1);
  const std::string one = text_of(c);
  set_thread_count(0);
  EXPECT_EQ(one, all);
  EXPECT_EQ(json::parse(all)["rows"].size(), 5000u);
}

}  // namespace
}  // namespace assay
