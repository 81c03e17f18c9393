// Specs: every key is read, every slip is an error with its line.
#include "assay/conform/spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Spec, ReadsEveryKey) {
  const Spec spec = parse_spec(R"(module: m
summary: what it is
api: [a.b.C, a.D]
seed: 7
parameters:
  n: {small: [{edges: [8, 16]}, 40], real: [1024]}
  h: [{edges: [16], step: 16}]
  dtype: [float32, 'bfloat16']
  eps: [1.0e-5, 1, true, '1', [1, [2, x]]]
  values: [normal, wide]
constraints:
  - n > 7 or h == 16
  - "min(n, h) >= 0"
inputs:
  x:
    shape: [n, h // 16]
    dtype: dtype
    values: {kind: values, scale: 0.5, low: -2}
    strided: n > 8
  w: {shape: [], dtype: float32, values: ones, when: h > 0}
outputs:
  y: {shape: [n], dtype: float32, when: n > 0, exact: true, class: gemm,
      standard: exact, each_step: true, merge: {concatenate: 1}}
  grad.x: {merge: sum}
  z: {shape: []}
steps: {small: 2, real: 3}
contract: [defaults, state_dict]
standard:
  - {when: dtype == 'float32', use: exact}
  - {use: {name: ours, kind: relative, dtypes: {f32: 2^-13}}}
deterministic: false
pinned: [{n: 40}]
invalid: {odd: {n: 3}}
)",
                               "specs/m.yaml");
  EXPECT_EQ(spec.module, "m");
  EXPECT_EQ(spec.summary, "what it is");
  EXPECT_THAT(spec.api, ElementsAre("a.b.C", "a.D"));
  EXPECT_EQ(spec.seed, 7u);
  const auto json = [&spec](std::size_t p, Tier tier) {
    return to_json(List(spec.parameters.at(p).values(tier)));
  };
  EXPECT_EQ(json(0, Tier::kSmall), "[7, 8, 9, 15, 16, 17, 40]");
  EXPECT_EQ(json(0, Tier::kReal), "[1024]");
  EXPECT_EQ(json(1, Tier::kReal), "[0, 16, 32]");
  EXPECT_EQ(json(3, Tier::kSmall), R"([1e-05, 1, true, "1", [1, [2, "x"]]])");
  ASSERT_EQ(spec.constraints.size(), 2u);
  const Parameters some = {{"n", 8},
                           {"h", 32},
                           {"dtype", "bfloat16"},
                           {"eps", 1},
                           {"values", "wide"}};
  EXPECT_TRUE(spec.constraints[0].holds(some));
  const Input& x = spec.inputs.at(0);
  EXPECT_EQ(x.shape.at(1).evaluate(some), Value(2));
  EXPECT_EQ(x.dtype.evaluate(some), Value("bfloat16"));
  EXPECT_EQ(x.values.kind.evaluate(some), Value("wide"));
  EXPECT_EQ(x.values.options.at("low").evaluate(some), Value(-2));
  EXPECT_FALSE(x.strided->holds(some));
  EXPECT_EQ(spec.inputs[1].values.kind.evaluate(some), Value("ones"));
  EXPECT_EQ(spec.inputs[1].dtype.evaluate(some), Value("float32"));
  const Output& y = spec.outputs.at(0);
  EXPECT_TRUE(y.exact_bytes && y.each_step && y.has_shape && y.dtype);
  EXPECT_EQ(y.op_class, "gemm");
  EXPECT_EQ(y.standard, "exact");
  EXPECT_EQ(y.merge.kind, Merge::Kind::kConcatenate);
  EXPECT_EQ(y.merge.dimension, 1);
  EXPECT_EQ(spec.outputs[1].merge.kind, Merge::Kind::kSum);
  EXPECT_FALSE(spec.outputs[1].has_shape);
  EXPECT_TRUE(spec.outputs[2].has_shape);
  EXPECT_EQ(spec.steps(Tier::kSmall), 2);
  EXPECT_EQ(spec.steps(Tier::kReal), 3);
  EXPECT_THAT(spec.contract, ElementsAre("defaults", "state_dict"));
  ASSERT_EQ(spec.standard.size(), 2u);
  EXPECT_EQ(spec.standard[0].standard, "exact");
  EXPECT_EQ(spec.standard[1].standard,
            R"({"name": ours, "kind": relative, "dtypes": {"f32": 2^-13}})");
  EXPECT_FALSE(spec.deterministic);
  EXPECT_EQ(spec.pinned.at(0).at("n"), Value(40));
  EXPECT_EQ(spec.invalid.at(0).name, "odd");
  EXPECT_EQ(spec.lines.at("inputs.x"), 15);
  EXPECT_EQ(spec.lines.at("parameters.h"), 7);
}

std::string refusal(const std::string& yaml) {
  try {
    parse_spec(yaml, "specs/m.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Spec, RefusesSlipsWithTheirLine) {
  const std::string head = "module: m\nparameters:\n  tokens: [1]\n";
  const std::string tail = "outputs: {y: {}}\n";
  const std::pair<std::string, std::string> rows[] = {
      {"outputs: {y: {}}", "m.yaml:1: key 'module' is missing"},
      {"module: m", "expected at least one output"},
      {"module: a/b\n" + tail, "m.yaml:1: module 'a/b'"},
      {head + tail + "stpes: 2\n", "m.yaml:5: unknown key 'stpes'"},
      {head + tail + "steps: 0\n", "m.yaml:5: found '0', expected an integer"},
      {head + tail + "steps: two\n", "m.yaml:5: found 'two'"},
      {head + tail + "constraints: [tokns > 1]\n",
       "m.yaml:5: no parameter 'tokns', did you mean 'tokens'?"},
      {head + tail + "constraints: [tokens >]\n",
       "m.yaml:5: tokens >: expected a value, found the end"},
      {head + tail + "constraints: tokens\n", "m.yaml:5: expected a list"},
      {head + tail + "pinned: [{other: 1}]\n",
       "m.yaml:5: no parameter 'other'"},
      {head + tail + "inputs: {x: {shape: [1], dtype: f32}}\n",
       "m.yaml:5: key 'values' is missing"},
      {head + tail + "inputs: {x: {shape: [1], dtype: f33, values: ones}}\n",
       "m.yaml:5: no parameter 'f33'"},
      {head + tail + "inputs: {x: {shape: [1], dtype: f32, values: nromal}}\n",
       "m.yaml:5: no parameter 'nromal'"},
      {head + tail +
           "inputs: {x: {shape: [1], dtype: f32, values: {kind: ones, a: "
           "1}}}\n",
       "m.yaml:5: no option 'a' of values 'ones'"},
      {head + tail + "inputs: {../x: {shape: [1], dtype: f32, values: ones}}\n",
       "m.yaml:5: name '../x'"},
      {head + "outputs: {y: {class: gem}}\n",
       "m.yaml:4: found 'gem', expected one of gemm"},
      {head + "outputs: {y: {merge: {concatenate: -1}}}\n", "m.yaml:4: found"},
      {head + "outputs: {y: {}, y: {}}\n", "m.yaml:4: key 'y' is given twice"},
      {"module: m\nparameters: {a: []}\n" + tail,
       "m.yaml:2: expected at least one value"},
      {"module: m\nparameters: {a: [1, 1]}\n" + tail,
       "m.yaml:2: value 1 is given twice"},
      {"module: m\nparameters: {a: {small: [1]}}\n" + tail,
       "m.yaml:2: key 'real' is missing"},
      {"module: m\nparameters: {a: [99999999999999999999]}\n" + tail,
       "m.yaml:2: an integer beyond 64 bits"},
      {"module: m\nparameters: {a: [~]}\n" + tail,
       "m.yaml:2: the value is missing"},
      {"module: m\nparameters: {a: [&x 1, *x]}\n" + tail,
       "m.yaml:2: anchors and aliases"},
      {"module: m\nparameters: {a: [!!int 1]}\n" + tail, "m.yaml:2: tag"},
      {head + tail + "standard: [{when: tokens > 1, use: exact}]\n",
       "m.yaml:5: the last rule needs no 'when'"},
      {head + tail + "api: [a, a]\n", "m.yaml:5: 'a' is given twice"},
      {"module: [", "not valid YAML"},
      {"- 1\n", "expected one YAML mapping"},
      {"module: m\n---\nmodule: m\n", "expected one YAML mapping"},
      {std::string(200000, '['), "specs/m.yaml"},
  };
  for (const auto& [yaml, wanted] : rows)
    EXPECT_THAT(refusal(yaml), HasSubstr(wanted)) << yaml.substr(0, 200);
}

TEST(Spec, ShipsWithTheLibrary) {
  const std::vector<Spec> shipped = load_specs("");
  ASSERT_FALSE(shipped.empty());
  const std::vector<Spec> folder =
      load_specs(std::string(ASSAY_SOURCE_DIR) + "/specs");
  ASSERT_EQ(shipped.size(), folder.size());
  for (std::size_t i = 0; i < shipped.size(); ++i) {
    EXPECT_EQ(shipped[i].module, folder[i].module);
    EXPECT_EQ(shipped[i].hash, folder[i].hash);
    EXPECT_EQ(shipped[i].path, "specs/" + shipped[i].module + ".yaml");
  }
}

TEST(Spec, IsSelectedByName) {
  const auto named = [](const char* name) {
    return parse_spec(std::string("module: ") + name + "\noutputs: {y: {}}\n",
                      "x.yaml");
  };
  const std::vector<Spec> all = {named("linear"), named("norm"), named("moe")};
  EXPECT_EQ(select_specs(all, {}).size(), 3u);
  const std::vector<Spec> two = select_specs(all, {"moe", "linear"});
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].module, "linear");
  try {
    select_specs(all, {"linaer"});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "no module 'linaer', did you mean 'linear'?");
  }
}

TEST(Spec, OfAFolderHasTheNameOfItsFile) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "assay_spec_folder";
  std::filesystem::create_directories(folder);
  EXPECT_THROW(load_specs(folder.string()), Error) << "no spec in it";
  std::ofstream(folder / "a.yaml") << "module: b\noutputs: {y: {}}\n";
  try {
    load_specs(folder.string());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a.yaml:1: module 'b', expected 'a'"));
  }
  std::filesystem::remove_all(folder);
  EXPECT_THROW(load_specs(folder.string()), Error);
}

}  // namespace
}  // namespace assay::conform
