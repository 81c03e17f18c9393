// Manifests held against each other: what is planted is found, nothing else.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "assay/base/error.h"
#include "assay/conform/api/contract_report.h"
#include "assay/conform/api/manifest.h"
#include "assay/conform/api/manifest_compare.h"
#include "assay/conform/report/run_fields.h"
#include "assay/conform/spec.h"

namespace assay::conform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kGolden = R"json({
 "assay_api_manifest": 1, "package": "eng", "version": "1", "problems": [],
 "symbols": {
  "eng.Linear": {"kind": "class", "paths": ["eng.Linear", "eng.old.Linear"],
   "methods": {
    "__init__": {"kind": "method", "parameters": [
      {"name": "size", "kind": "positional"},
      {"name": "bias", "kind": "positional", "default": "True"},
      {"name": "eps", "kind": "keyword", "default": "1e-05"}]},
    "forward": {"kind": "method", "parameters": [
      {"name": "x", "kind": "positional"}]}},
   "state_dict": ["bias", "weight"], "extra_state": true},
  "eng.Format": {"kind": "enum", "paths": ["eng.Format"],
   "values": {"E4M3": "(448, 448)", "HYBRID": "(448, 57344)"}},
  "eng.Recipe": {"kind": "dataclass", "paths": ["eng.Recipe"], "methods": {},
   "fields": [
    {"name": "margin", "kind": "field", "default": "0"},
    {"name": "mode", "kind": "field", "default": "'mae'", "env": "ENG_MODE"}]},
  "eng.gemm": {"kind": "function", "paths": ["eng.gemm"], "parameters": [
    {"name": "a", "kind": "positional"}, {"name": "b", "kind": "positional"},
    {"name": "rest", "kind": "var-keyword"}]},
  "eng": {"kind": "module", "paths": ["eng"]}
 }})json";

ApiManifest golden() {
  return parse_api_manifest(parse_json(kGolden, "golden"), "golden");
}

std::vector<std::string> findings_of(const ContractCheck& check) {
  std::vector<std::string> lines;
  for (const ContractFinding& one : check.findings) {
    lines.push_back(std::string(to_string(one.change)) + ": " + one.symbol +
                    ": " + one.what + ": " + one.expected + " -> " + one.found);
  }
  return lines;
}

std::vector<std::string> findings(const ApiManifest& target) {
  return findings_of(compare_manifests(golden(), target));
}

ApiParameters& parameters_of_init(ApiManifest& manifest) {
  return *manifest.symbols["eng.Linear"].methods["__init__"].parameters;
}

TEST(ManifestCompare, TheSameIsAMatch) {
  const ContractCheck check = compare_manifests(golden(), golden());
  EXPECT_THAT(findings_of(check), IsEmpty());
  EXPECT_EQ(check.verdict(), Verdict::kMatch);
  EXPECT_EQ(check.symbols, 5);
  // 6 paths, 5 kinds, 2 methods, 3 + 1 + 2 + 2 + 1 parameters, fields, ...
  EXPECT_GT(check.things, 20);
}

TEST(ManifestCompare, WhereTheTargetDefinesItDoesNotMatter) {
  ApiManifest target = golden();
  auto node = target.symbols.extract("eng.Linear");
  node.key() = "eng.deep.inside.Linear";
  node.mapped().paths.push_back("eng.deep.inside.Linear");
  target.symbols.insert(std::move(node));
  EXPECT_THAT(findings(target), IsEmpty());
}

TEST(ManifestCompare, EnumRenamed) {
  ApiManifest target = golden();
  auto& values = target.symbols["eng.Format"].values;
  values.erase("HYBRID");
  values["MIXED"] = "(448, 57344)";
  EXPECT_THAT(findings(target),
              ElementsAre("changed: eng.Format: value HYBRID: HYBRID = (448, "
                          "57344) -> MIXED = (448, 57344)"));
}

TEST(ManifestCompare, EnumValueChangedAndMissing) {
  ApiManifest target = golden();
  target.symbols["eng.Format"].values = {{"E4M3", "(240, 240)"}};
  EXPECT_THAT(
      findings(target),
      ElementsAre("changed: eng.Format: value E4M3: (448, 448) -> (240, 240)",
                  "missing: eng.Format: value HYBRID: HYBRID = (448, 57344) "
                  "-> none"));
}

TEST(ManifestCompare, DefaultChanged) {
  ApiManifest target = golden();
  parameters_of_init(target)[1].fallback = "False";
  EXPECT_THAT(findings(target),
              ElementsAre("changed: eng.Linear: parameter bias of __init__: "
                          "bias=True -> bias=False"));
  EXPECT_EQ(compare_manifests(golden(), target).verdict(), Verdict::kMismatch);
}

TEST(ManifestCompare, DefaultOfAFieldAndItsVariable) {
  ApiManifest target = golden();
  auto& fields = *target.symbols["eng.Recipe"].fields;
  fields[0].fallback = "1";
  fields[1].env = "OTHER";
  EXPECT_THAT(findings(target),
              ElementsAre("changed: eng.Recipe: field margin: margin=0 -> "
                          "margin=1",
                          "changed: eng.Recipe: field mode: changed by "
                          "ENG_MODE -> changed by OTHER"));
  target.how = "import";  // a live object does not say
  EXPECT_THAT(findings(target), ElementsAre(HasSubstr("field margin")));
}

TEST(ManifestCompare, MissingExport) {
  ApiManifest target = golden();
  target.symbols.erase("eng.gemm");
  EXPECT_THAT(findings(target),
              ElementsAre("missing: eng.gemm: path: eng.gemm -> nowhere"));
}

TEST(ManifestCompare, MovedWhollyAndInPart) {
  ApiManifest target = golden();
  target.symbols["eng.gemm"].paths = {"eng.fast.gemm"};
  target.symbols["eng.Linear"].paths = {"eng.Linear"};
  EXPECT_THAT(
      findings(target),
      ElementsAre("moved: eng.Linear: path: eng.old.Linear -> eng.Linear",
                  "moved: eng.gemm: path: eng.gemm -> eng.fast.gemm"));
}

TEST(ManifestCompare, AnotherThingOfTheSameNameIsNoMove) {
  ApiManifest target = golden();
  ApiSymbol module;
  module.kind = "module";
  module.paths = {"eng.other.gemm"};
  target.symbols["eng.other.gemm"] = module;
  target.symbols.erase("eng.gemm");
  EXPECT_THAT(findings(target), ElementsAre(HasSubstr("nowhere")));
}

TEST(ManifestCompare, ParameterMissingRenamedReorderedRequired) {
  ApiManifest target = golden();
  parameters_of_init(target).erase(parameters_of_init(target).begin() + 1);
  EXPECT_THAT(findings(target),
              ElementsAre("missing: eng.Linear: parameter bias of __init__: "
                          "bias=True -> none of this name"));
  target = golden();
  parameters_of_init(target)[1].name = "use_bias";
  EXPECT_THAT(findings(target),
              ElementsAre("changed: eng.Linear: parameter bias of __init__: "
                          "bias=True -> use_bias=True, another name"));
  target = golden();
  auto& gemm = *target.symbols["eng.gemm"].parameters;
  std::swap(gemm[0], gemm[1]);
  EXPECT_THAT(findings(target),
              ElementsAre("changed: eng.gemm: order of parameters: a in place "
                          "1 -> b"));
  target = golden();
  parameters_of_init(target)[1].fallback.reset();
  EXPECT_THAT(findings(target),
              ElementsAre(HasSubstr("bias=True -> required")));
}

TEST(ManifestCompare, ParameterKindAndKeywords) {
  ApiManifest target = golden();
  parameters_of_init(target)[1].kind = "keyword";
  target.symbols["eng.gemm"].parameters->pop_back();
  EXPECT_THAT(findings(target),
              ElementsAre("changed: eng.Linear: parameter bias of __init__: "
                          "positional -> keyword",
                          "missing: eng.gemm: parameter rest: **rest -> none "
                          "of this name"));
}

TEST(ManifestCompare, MoreIsANoteUnlessACallBreaks) {
  ApiManifest target = golden();
  parameters_of_init(target).push_back({"fast", "keyword", "False", ""});
  target.symbols["eng.Format"].values["E5M2"] = "(1, 1)";
  ApiSymbol extra = target.symbols["eng.gemm"];
  extra.paths = {"eng.extra"};
  target.symbols["eng.extra"] = extra;
  ContractCheck check = compare_manifests(golden(), target);
  EXPECT_EQ(check.count(Change::kAdded), 3);
  EXPECT_EQ(check.verdict(), Verdict::kMatch);
  target.symbols["eng.gemm"].parameters->insert(
      target.symbols["eng.gemm"].parameters->begin() + 1,
      {"first", "positional", "None", ""});
  EXPECT_THAT(findings(target),
              testing::Contains("changed: eng.gemm: order of parameters: b in "
                                "place 2 -> first"));
  target = golden();
  parameters_of_init(target).push_back({"must", "keyword", {}, ""});
  EXPECT_THAT(findings(target), ElementsAre(HasSubstr("must, required")));
}

TEST(ManifestCompare, MethodsStateAndKind) {
  ApiManifest target = golden();
  ApiSymbol& linear = target.symbols["eng.Linear"];
  linear.methods.erase("forward");
  linear.state_dict = {"scale", "weight"};
  linear.extra_state = false;
  target.symbols["eng.Recipe"].kind = "class";
  EXPECT_THAT(
      findings(target),
      ElementsAre("missing: eng.Linear: method forward: method -> none",
                  "missing: eng.Linear: extra state: get_extra_state -> none",
                  "missing: eng.Linear: state bias: bias -> none",
                  "changed: eng.Linear: state scale: none -> scale",
                  "changed: eng.Recipe: kind: dataclass -> class"));
}

TEST(ManifestCompare, WhatOneSideDoesNotSayIsNotCompared) {
  ApiManifest target = golden();
  target.symbols["eng.Linear"].state_dict.reset();
  target.symbols["eng.gemm"].kind = "external";
  target.symbols["eng.Format"].values["E4M3"] = "<int(x)>";
  const ContractCheck check = compare_manifests(golden(), target);
  EXPECT_EQ(check.count(Change::kNotCompared), 3);
  EXPECT_EQ(check.findings.size(), 3u);
  EXPECT_EQ(check.verdict(), Verdict::kIncomplete);
}

TEST(ManifestCompare, APackageThatWasNotGivenIsNotMissing) {
  ApiManifest both = golden();
  both.symbols["eng_torch.f"].kind = "function";
  both.symbols["eng_torch.f"].paths = {"eng_torch.f"};
  ApiManifest target = golden();
  // Another name of the companion, which the package itself takes from it.
  target.symbols["eng_torch.g"].kind = "external";
  target.symbols["eng_torch.g"].paths = {"eng.g"};
  const ContractCheck check = compare_manifests(both, target);
  EXPECT_THAT(findings_of(check),
              testing::Contains(
                  "not compared: eng_torch: package: 1 paths -> not given"));
  EXPECT_EQ(check.verdict(), Verdict::kIncomplete);
}

TEST(ManifestCompare, NothingComparedIsIncomplete) {
  ApiManifest empty;
  EXPECT_EQ(compare_manifests(empty, empty).verdict(), Verdict::kIncomplete);
  const ContractCheck other = compare_manifests(golden(), empty);
  EXPECT_EQ(other.things, 0);
  EXPECT_EQ(other.verdict(), Verdict::kIncomplete);
}

TEST(ManifestCompare, UnreadableSourcesAreIncomplete) {
  ApiManifest target = golden();
  target.problems = {{"eng/broken.py", "syntax error", 3}};
  EXPECT_EQ(compare_manifests(golden(), target).verdict(),
            Verdict::kIncomplete);
  target.how = "import";
  target.problems = {{"eng.jax", "no jax", 0}};
  EXPECT_EQ(compare_manifests(golden(), target).verdict(), Verdict::kMatch);
  target.problems = {{"eng.old", "no old", 0}};
  EXPECT_EQ(compare_manifests(golden(), target).verdict(),
            Verdict::kIncomplete);
}

TEST(ManifestCompare, ReportsEscapeTheNamesOfOthers) {
  ApiManifest target = golden();
  target.symbols["eng.Format"].values["E4M3"] = "<\x1b[31m&\"]]>";
  target.symbols.erase("eng.gemm");
  ContractCheck check = compare_manifests(golden(), target);
  check.findings[0].symbol += "\x1b[2J";
  const ContractSides sides = {"a<b", "c&d"};
  const std::string xml = contract_junit(check, sides);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"2\""));
  EXPECT_THAT(xml, HasSubstr("c&amp;d against a&lt;b"));
  EXPECT_THAT(xml, testing::Not(HasSubstr("\x1b")));
  EXPECT_THAT(contract_text(check, sides, false),
              testing::Not(HasSubstr("\x1b")));
  const Value json = contract_json(check, sides);
  EXPECT_EQ(json.find("verdict")->text(), "mismatch");
  EXPECT_EQ(json.find("findings")->list().size(), 2u);
}

void expect_refused(const std::string& text, const std::string& part) {
  try {
    parse_api_manifest(parse_json(text, "m.json"), "m.json");
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kRefused);
    EXPECT_THAT(error.what(), HasSubstr(part));
    EXPECT_THAT(error.what(), HasSubstr("m.json"));
  }
}

TEST(Manifest, WhatIsNoneIsRefused) {
  expect_refused("[1]", "expected an object");
  expect_refused("{}", "assay_api_manifest: is missing");
  expect_refused(R"({"assay_api_manifest": 2})", "from 1 to 1");
  const std::string head = R"({"assay_api_manifest": 1, "package": "p",
    "version": "", "problems": [], "symbols": )";
  expect_refused(head + "[]}", "symbols");
  expect_refused(head + R"({"a": {"kind": 3}}})", "a.kind: 3, expected a text");
  expect_refused(head + R"({"a": {"kind": "class", "paths": []}}})", "path");
  expect_refused(head + R"({"a": {"kind": "class", "paths": ["a"],
    "methods": {"m": {"kind": "method", "parameters": [{"name": "x"}]}}}}})",
                 "parameters[0].kind: is missing");
}

// No cut and no changed byte does anything but parse or be refused.
TEST(Manifest, EveryCutAndChangeIsReadOrRefused) {
  const std::string text = kGolden;
  int read = 0;
  const auto attempt = [&](const std::string& changed) {
    try {
      const Value document = parse_json(changed, "m.json");
      const ApiManifest target = parse_api_manifest(document, "m.json");
      compare_manifests(golden(), target);
      ++read;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("m.json"));
    }
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    attempt(text.substr(0, i));
    for (const char c : {'"', '{', ']', '0', '\xff'}) {
      std::string changed = text;
      changed[i] = c;
      attempt(changed);
    }
  }
  EXPECT_GT(read, 100);  // names and texts may be anything
}

TEST(Manifest, PackagesMerge) {
  ApiManifest first = golden();
  ApiManifest second;
  second.package = "eng_torch";
  second.symbols["eng_torch.f"].kind = "function";
  second.symbols["eng_torch.f"].paths = {"eng_torch.f"};
  first.symbols["eng_torch.f"].kind = "external";
  first.symbols["eng_torch.f"].paths = {"eng.f"};
  merge(first, second);
  EXPECT_EQ(first.symbols["eng_torch.f"].kind, "function");
  EXPECT_THAT(first.symbols["eng_torch.f"].paths,
              ElementsAre("eng.f", "eng_torch.f"));
  EXPECT_EQ(first.package, "eng, eng_torch");
  EXPECT_THROW(merge(first, golden()), Error);
}

std::string parent_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

ApiManifest shipped_manifest() {
  const std::string path = ASSAY_SOURCE_DIR "/specs/api/nvte-2.20.json";
  return parse_api_manifest(read_json_file(path), path);
}

// The shipped manifest, by facts of the public documentation.
TEST(Manifest, TheShippedOneIsReadAndMatchesItself) {
  const ApiManifest shipped = shipped_manifest();
  EXPECT_EQ(compare_manifests(shipped, shipped).verdict(), Verdict::kMatch);
  EXPECT_EQ(shipped.symbols.at("transformer_engine.common.recipe.Format")
                .values.at("HYBRID"),
            "(448, 57344)");
  const ApiSymbol& linear =
      shipped.symbols.at("transformer_engine.pytorch.Linear");
  EXPECT_EQ(linear.methods.at("__init__").parameters->size(), 25u);
  EXPECT_THAT(
      shipped.symbols.at("transformer_engine.pytorch.Float8Tensor").paths,
      testing::Contains(
          "transformer_engine.pytorch.float8_tensor.Float8Tensor"));
}

// A spec may name old paths as well, but one whose names are all unknown
// guards nothing that is used.
TEST(Manifest, TheShippedOneKnowsWhatTheSpecsGuard) {
  std::set<std::string> known;
  for (const auto& [name, symbol] : shipped_manifest().symbols) {
    known.insert(symbol.paths.begin(), symbol.paths.end());
  }
  for (const Spec& spec : load_specs("")) {
    EXPECT_TRUE(std::any_of(spec.api.begin(), spec.api.end(),
                            [&](const std::string& api) {
                              return known.contains(api) ||
                                     known.contains(parent_of(api));
                            }))
        << spec.path;
  }
}

}  // namespace
}  // namespace assay::conform
