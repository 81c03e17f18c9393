// A scan classified and joined with what guards it.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "assay/base/error.h"
#include "assay/conform/api/inventory.h"
#include "assay/conform/api/inventory_text.h"

namespace assay::conform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kScan = R"({
 "assay_api_scan": 1, "files_read": 3, "problems": [],
 "apis": [
  {"name": "eng", "uses": 2, "kinds": {"import": 2}, "files": {"a": 1, "b": 1}},
  {"name": "eng.Linear", "uses": 3, "kinds": {"call": 3}, "files": {"a": 3}},
  {"name": "eng.Recipe", "uses": 1, "kinds": {"call": 1}, "files": {"b": 1}},
  {"name": "eng.autocast", "uses": 1, "kinds": {"call": 1}, "files": {"b": 1}},
  {"name": "eng.novel", "uses": 1, "kinds": {"load": 1}, "files": {"b": 1}}]})";

constexpr const char* kRules = R"(rules:
  "*autocast": {class: chain, why: "a scope"}
  eng: {class: contract, why: "it imports"}
  eng.Recipe: {class: contract, why: "values"}
  "eng.L*": {class: numeric, why: "computes"}
  "eng.Linear": {class: chain, why: "never reached"}
)";

constexpr const char* kManifest = R"({
 "assay_api_manifest": 1, "package": "eng", "version": "2", "problems": [],
 "symbols": {
  "eng": {"kind": "module", "paths": ["eng"]},
  "eng.Linear": {"kind": "class", "paths": ["eng.Linear", "eng.m.Linear"]},
  "eng.Recipe": {"kind": "dataclass", "paths": ["eng.Recipe"]},
  "eng.autocast": {"kind": "function", "paths": ["eng.autocast"]}}})";

Inventory inventory(const std::vector<ApiGuard>& guards,
                    const std::string& scan = kScan) {
  return make_inventory(
      parse_json(scan, "scan"), parse_class_rules(kRules, "rules"),
      parse_api_manifest(parse_json(kManifest, "m"), "m"), guards);
}

const ApiEntry& entry(const Inventory& all, const std::string& name) {
  for (const ApiEntry& one : all.apis) {
    if (one.name == name) return one;
  }
  throw std::runtime_error(name);
}

TEST(Inventory, TheFirstRuleThatFitsDecides) {
  const Inventory all = inventory({});
  EXPECT_EQ(entry(all, "eng").api_class, ApiClass::kContract);
  EXPECT_EQ(entry(all, "eng.Linear").api_class, ApiClass::kNumeric);
  EXPECT_EQ(entry(all, "eng.Linear").why, "computes");
  EXPECT_EQ(entry(all, "eng.autocast").api_class, ApiClass::kChain);
  EXPECT_EQ(entry(all, "eng.novel").api_class, ApiClass::kUnclassified);
}

TEST(Inventory, ASpecGuardsUnderAnyPathAndByMembers) {
  const Inventory all =
      inventory({{"linear", {"eng.m.Linear"}}, {"scopes", {"eng.autocast.x"}}});
  EXPECT_THAT(entry(all, "eng.Linear").guards, ElementsAre("linear"));
  EXPECT_THAT(entry(all, "eng.autocast").guards, ElementsAre("scopes"));
  EXPECT_THAT(entry(all, "eng").guards, ElementsAre("manifest 2"));
}

TEST(Inventory, NamesThatOnlyBeginAlikeAreNotGuarded) {
  const Inventory all = inventory({{"linear", {"eng.LinearElse", "eng.Lin"}}});
  EXPECT_THAT(entry(all, "eng.Linear").guards, IsEmpty());
}

TEST(Inventory, TheManifestGuardsContractsItKnowsAlone) {
  const Inventory all = inventory({});
  EXPECT_THAT(entry(all, "eng.Recipe").guards, ElementsAre("manifest 2"));
  EXPECT_TRUE(entry(all, "eng.Linear").in_manifest);
  EXPECT_THAT(entry(all, "eng.Linear").guards, IsEmpty());
  EXPECT_FALSE(entry(all, "eng.novel").in_manifest);
}

TEST(Inventory, SharesOfTheClasses) {
  const Inventory all = inventory({{"linear", {"eng.Linear"}}});
  EXPECT_EQ(all.uses, 8);
  EXPECT_EQ(all.files_with_uses, 2);
  const auto share = [&](ApiClass c) {
    const Inventory::Share& s = all.shares[static_cast<std::size_t>(c)];
    return std::array{s.apis, s.uses, s.unguarded};
  };
  EXPECT_THAT(share(ApiClass::kContract), ElementsAre(2, 3, 0));
  EXPECT_THAT(share(ApiClass::kNumeric), ElementsAre(1, 3, 0));
  EXPECT_THAT(share(ApiClass::kChain), ElementsAre(1, 1, 1));
  EXPECT_THAT(share(ApiClass::kUnclassified), ElementsAre(1, 1, 1));
}

TEST(Inventory, WhatWasNotReadIsIncomplete) {
  EXPECT_TRUE(inventory({}).is_complete());
  EXPECT_FALSE(
      inventory({}, R"({"assay_api_scan": 1, "files_read": 1, "problems": [],
                        "apis": []})")
          .is_complete());
  std::string broken = kScan;
  const std::string empty = "\"problems\": []";
  broken.replace(broken.find(empty), empty.size(),
                 R"("problems": [{"file": "x", "reason": "bad", "line": 3}])");
  const Inventory all = inventory({}, broken);
  EXPECT_FALSE(all.is_complete());
  EXPECT_THAT(inventory_summary(all), HasSubstr("x:3: bad"));
}

TEST(Inventory, TextAndJson) {
  const Inventory all = inventory({{"linear", {"eng.Linear"}}});
  EXPECT_THAT(inventory_table(all), HasSubstr("numeric       eng.Linear"));
  EXPECT_THAT(inventory_table(all),
              HasSubstr("unguarded; not in the manifest"));
  EXPECT_THAT(inventory_by_file(all), HasSubstr("a  4 uses"));
  EXPECT_THAT(inventory_summary(all), HasSubstr("8 uses of 5 APIs in 2 of 3"));
  const Value json = annotated(parse_json(kScan, "scan"), all);
  const Value& linear = json.find("apis")->list()[1];
  EXPECT_EQ(linear.find("class")->text(), "numeric");
  EXPECT_EQ(linear.find("guarded_by")->list()[0].text(), "linear");
  EXPECT_TRUE(linear.find("in_manifest")->boolean());
}

TEST(Inventory, RulesAndScansThatAreNone) {
  EXPECT_THROW(parse_class_rules("rules: {a: {class: odd, why: x}}", "r"),
               Error);
  EXPECT_THROW(parse_class_rules("rules: {a: {class: chain}}", "r"), Error);
  EXPECT_THROW(inventory({}, R"({"assay_api_scan": 9})"), Error);
  EXPECT_THROW(inventory({}, "[]"), Error);
}

TEST(ShippedClasses, NamesOfEachKind) {
  const std::string path = ASSAY_SOURCE_DIR "/specs/api/classes.yaml";
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  const auto rules = parse_class_rules(text.str(), path);
  const std::map<std::string, std::string> expected = {
      {"transformer_engine", "contract"},
      {"transformer_engine.__version__", "contract"},
      {"transformer_engine.common.recipe.DelayedScaling", "contract"},
      {"transformer_engine.pytorch.module.linear", "contract"},
      {"transformer_engine.pytorch.tensor.mxfp8_tensor.MXFP8Tensor",
       "contract"},
      {"transformer_engine.pytorch.ops.Sequential", "contract"},
      {"transformer_engine.pytorch.Linear", "numeric"},
      {"transformer_engine.pytorch.module.linear.general_gemm", "numeric"},
      {"transformer_engine.pytorch.ops.GroupedLinear", "numeric"},
      {"transformer_engine.pytorch.permutation.moe_permute", "numeric"},
      {"transformer_engine.pytorch.Float8Quantizer", "numeric"},
      {"transformer_engine_torch.thd_get_partitioned_indices", "numeric"},
      {"transformer_engine.pytorch.fp8_autocast", "chain"},
      {"transformer_engine.pytorch.fp8.FP8GlobalStateManager", "chain"},
      {"transformer_engine.pytorch.distributed.checkpoint", "chain"},
      {"transformer_engine.pytorch.cpu_offload_v1", "chain"},
      {"transformer_engine.pytorch.graph.save_fp8_tensors", "chain"},
      {"transformer_engine.pytorch.quite_new", "unclassified"},
  };
  for (const auto& [name, expected_class] : expected) {
    const Value scan = Object{{"assay_api_scan", 1},
                              {"files_read", 1},
                              {"problems", List{}},
                              {"apis", List{Object{{"name", name},
                                                   {"uses", 1},
                                                   {"kinds", Object{}},
                                                   {"files", Object{}}}}}};
    const Inventory one = make_inventory(scan, rules, {}, {});
    EXPECT_EQ(to_string(one.apis[0].api_class), expected_class) << name;
  }
}

}  // namespace
}  // namespace assay::conform
