// Lint: each slip is found, with its line, and the shipped specs have none.
#include "assay/conform/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Lines 1 to 9 of a spec without a finding; `rest` follows.
std::string sound(const std::string& parameters, const std::string& rest) {
  return "module: nothing_of_ours\napi: [a.B]\nparameters:\n  n: [1, 2]\n" +
         parameters +
         "inputs:\n  x: {shape: [n], dtype: float32, values: normal}\n"
         "outputs:\n  y: {shape: [n], dtype: float32}\n" +
         rest;
}

std::vector<std::string> findings(const std::string& yaml,
                                  const ApiManifest* manifest = nullptr) {
  LintOptions options;
  options.manifest = manifest;
  std::vector<std::string> found;
  for (const LintFinding& finding :
       lint(parse_spec(yaml, "specs/s.yaml"), options))
    found.push_back(to_string(finding));
  return found;
}

TEST(Lint, HasNothingToSayOfASoundSpec) {
  EXPECT_THAT(findings(sound("", "")), IsEmpty());
}

struct Row {
  std::string yaml, finding;
};

TEST(Lint, FindsEachSlipWithItsLine) {
  const std::string inputs =
      "module: s\napi: [a.B]\nparameters: {n: [1, 2]}\n"
      "outputs: {y: {}}\ninputs:\n";
  const Row rows[] = {
      {"module: s\noutputs: {y: {}}\n", "s.yaml:1: warning: guards no API"},
      {inputs + "  x: {shape: [n - 2], dtype: float32, values: ones}\n",
       "s.yaml:6: error: cannot be drawn: case small-"},
      {inputs + "  x: {shape: [n], dtype: float32, values: \"'oens'\"}\n",
       "s.yaml:6: error: cannot be drawn: case small-"},
      {inputs + "  x: {shape: [n], dtype: int32, values: labels}\n",
       "option 'classes' is missing"},
      {inputs + "  x: {shape: [8 // (n - 1)], dtype: f32, values: ones}\n",
       "a division by zero"},
      {inputs +
           "  x: {shape: [n], dtype: float32, values: ones, when: n > 2}\n",
       "s.yaml:6: error: input x is in no case"},
      {inputs + "  x: {shape: [n, 1000, 10000], dtype: f32, values: ones}\n",
       "s.yaml:6: warning: case small-"},
      {inputs + "  dtype: {shape: [n], dtype: f32, values: ones}\n",
       "s.yaml:6: warning: input dtype has the name of a type"},
      {inputs + "  a.float: {shape: [n], dtype: f32, values: ones}\n",
       "s.yaml:6: warning: input a.float has the name of a type"},
      {inputs + "  TensorX: {shape: [n], dtype: f32, values: ones}\n",
       "s.yaml:6: warning: input TensorX has the name of a type"},
      {sound("  type: [1]\n", ""),
       "s.yaml:5: warning: parameter type has the name of a type"},
      {sound("  m: [1, 2, 3]\n", "constraints: [m > n]\n"),
       "s.yaml:5: error: the constraints leave no small case with m 1"},
      {sound("  nesterov: [true, false]\n  momentum: [0.0, 0.9]\n", ""),
       "s.yaml:5: error: a case has nesterov with momentum 0"},
      {sound("", "standard: asay\n"), "s.yaml:9: error: no standard 'asay'"},
      {sound("", "standard: {name: s, kind: vibes}\n"), "s.yaml:9: error: "},
      {sound("", "contract: [defaults, state.amax]\n"),
       "s.yaml:9: error: field state.amax sounds as if"},
      {sound("", "invalid: {fine: {n: 2}}\n"),
       "s.yaml:9: error: must be refused, but the constraints allow it"},
      {sound("", "invalid: {odd: {n: -1}}\n"),
       "s.yaml:9: error: never reaches an implementation"},
      {"module: s\napi: [a.B]\nparameters: {n: [1]}\noutputs:\n"
       "  y: {when: n > 1}\n",
       "s.yaml:5: error: output y is in no case"},
      {"module: s\napi: [a.B]\nparameters: {n: [1]}\noutputs:\n"
       "  y: {shape: [n - 2]}\n",
       "s.yaml:5: error: has no shape or dtype"},
      {"module: s\napi: [a.B]\nparameters: {n: [1]}\noutputs:\n"
       "  y: {standard: exakt}\n",
       "s.yaml:5: error: no standard 'exakt'"},
      {sound("", "constraints: [n > 9]\n"),
       "s.yaml:9: error: small tier: no case satisfies the constraints: n > 9"},
  };
  for (const Row& row : rows)
    EXPECT_THAT(findings(row.yaml), Contains(HasSubstr(row.finding)))
        << row.yaml;
}

TEST(Lint, NesterovMayBeExcluded) {
  EXPECT_THAT(findings(sound("  nesterov: [true, false]\n"
                             "  momentum: [0.0, 0.9]\n",
                             "constraints: [not nesterov or momentum > 0]\n")),
              IsEmpty());
}

TEST(Lint, KnowsTheManifestsPathsAndTheirMembers) {
  ApiManifest manifest;
  manifest.package = "p";
  manifest.symbols["p.f"].paths = {"p.f", "p.sub.f"};
  manifest.symbols["p.C"].methods["forward"];
  const auto with = [&manifest](const std::string& api) {
    return findings(
        "module: s\napi:\n  - p.f\n  - " + api + "\noutputs: {y: {}}\n",
        &manifest);
  };
  EXPECT_THAT(with("p.sub.f"), IsEmpty());
  EXPECT_THAT(with("p.C.forward"), IsEmpty());
  EXPECT_THAT(with("p.C.fowrard"),
              Contains("specs/s.yaml:4: error: p.C.fowrard is not in the "
                       "manifest of p, did you mean p.C.forward?"));
}

TEST(Lint, AsksTheEngine) {
  Spec spec = select_specs(load_specs(""), {"router"})[0];
  LintOptions options;
  EXPECT_THAT(lint(spec, options), IsEmpty());
  const std::string renamed = spec.outputs[0].name;
  spec.outputs[0].name = "other";
  spec.contract.emplace_back("defalts");
  spec.parameters.push_back({"colour", {"red", "blue"}, {"red"}});
  std::string found;
  for (const LintFinding& finding : lint(spec, options))
    found += to_string(finding) + "\n";
  EXPECT_THAT(found, HasSubstr("the engine's adapter gives no other"));
  EXPECT_THAT(found, HasSubstr("gives " + renamed + ", which is not declared"));
  EXPECT_THAT(found, HasSubstr("gives no field defalts"));
  EXPECT_THAT(found,
              HasSubstr("warning: parameter colour is in no expression"));
  options.ask_engine = false;
  EXPECT_THAT(lint(spec, options), IsEmpty());
}

TEST(Lint, FindsNothingInTheShippedSpecs) {
  int specs = 0;
  const std::vector<LintFinding> found = lint_folder("", {}, &specs);
  EXPECT_GT(specs, 3);
  for (const LintFinding& finding : found) ADD_FAILURE() << to_string(finding);
}

TEST(Lint, OfAFolderGoesOnAfterAFileThatIsNoSpec) {
  EXPECT_THROW(
      {
        int specs = 0;
        lint_folder("/no/such/folder", {}, &specs);
      },
      Error);
}

}  // namespace
}  // namespace assay::conform
