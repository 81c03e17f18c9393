// Hyperparameters from files of many kinds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/env/config_file.h"

namespace assay::env {
namespace {

using testing::HasSubstr;

std::string shown(const std::map<std::string, Value>& values) {
  std::string text;
  for (const auto& [key, value] : values) {
    const char kind = "tnb0f?"[static_cast<int>(value.kind)];
    text += key + "=" + kind + ":" + value.text + "\n";
  }
  return text;
}

std::string parsed(const std::string& text, const std::string& name) {
  return shown(parse_config(text, name));
}

TEST(ConfigFile, Yaml) {
  EXPECT_EQ(parsed("base: &b\n  lr: 1e-4\n  wd: 0.1\n"
                   "model:\n  <<: *b\n  wd: 0.2\n  Hidden-Size: 4096\n"
                   "  bf16: true\n  name: \"1\"\n  path: null\n"
                   "  betas: [0.9, 0.95]\n  blocks: [{n: 1}, {n: 2}]\n"
                   "  none: []\n",
                   "c.yaml"),
            "base.lr=n:1e-4\nbase.wd=n:0.1\nmodel.betas=t:0.9 0.95\n"
            "model.bf16=b:true\nmodel.blocks.0.n=n:1\nmodel.blocks.1.n=n:2\n"
            "model.hidden_size=n:4096\nmodel.lr=n:1e-4\nmodel.name=t:1\n"
            "model.none=t:[]\nmodel.path=0:null\nmodel.wd=n:0.2\n");
}

TEST(ConfigFile, TheLineOfAValue) {
  const auto values = parse_config("a: 1\nb:\n  c: 2\n", "dir/c.yaml");
  EXPECT_EQ(values.at("b.c").from, "c.yaml:3");
}

TEST(ConfigFile, AliasesThatGrowAreRefused) {
  std::string text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string one = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 9; ++j) text += one + ", ";
    text += one + "]\n";
  }
  try {
    parse_config(text, "c.yaml");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kRefused);
    EXPECT_THAT(error.what(), HasSubstr("more than 200,000 values"));
  }
}

TEST(ConfigFile, Json) {
  EXPECT_EQ(parsed(R"({"a":{"b-c":1.5e3,"d":[1,true,"x"]},"e":null,
                       "f":[{"g":1}],"h":[]})",
                   "c.json"),
            "a.b_c=n:1.5e3\na.d=t:1 true x\ne=0:null\nf.0.g=n:1\nh=t:[]\n");
}

TEST(ConfigFile, Ini) {
  EXPECT_EQ(parsed("; comment\n[train]\nlr = 1e-4 # as before\n"
                   "name = \"a # b\"\nuse: True\n",
                   "c.ini"),
            "train.lr=n:1e-4\ntrain.name=t:a # b\ntrain.use=b:true\n");
}

TEST(ConfigFile, NamespaceOfALog) {
  EXPECT_EQ(parsed("10:00 INFO args: Namespace(lr=0.0001, name='a, b=(c)', "
                   "betas=(0.9, 0.95), bf16=True, load=None, "
                   "d={'x': [1, 2]}, f=<function g at 0x1>)\nmore\n",
                   "train.log"),
            "betas=t:0.9 0.95\nbf16=b:true\nd=t:{'x': [1, 2]}\n"
            "f=t:<function g at 0x1>\nload=0:null\nlr=n:0.0001\n"
            "name=t:a, b=(c)\n");
}

TEST(ConfigFile, ArgumentsAsMegatronPrintsThem) {
  EXPECT_EQ(parsed("------ arguments ------\n"
                   "  hidden_size ................... 4096\n"
                   "[0]:  lr ............................ 0.0001\n"
                   "  data_path ..................... ['a', 'b']\n"
                   "------ end of arguments ------\niteration 1 ... x\n",
                   "train.log"),
            "data_path=t:a b\nhidden_size=n:4096\nlr=n:0.0001\n");
}

TEST(ConfigFile, WhatIsNoneOfThemIsRefused) {
  EXPECT_THROW(parse_config("a: [1", "c.yaml"), Error);
  EXPECT_THROW(parse_config("{\"a\":1", "c.json"), Error);
  EXPECT_THROW(parse_config("{\"a\":1} x", "c.json"), Error);
  EXPECT_THROW(parse_config("no setting at all\n", "c.txt"), Error);
  EXPECT_THROW(parse_config("", "c.txt"), Error);
  EXPECT_THROW(parse_config("Namespace(a=1, b", "c.txt"), Error);
  EXPECT_THROW(parse_config("Namespace(a=[1, 2", "c.txt"), Error);
  EXPECT_THROW(
      parse_config(std::string(200, '[') + std::string(200, ']'), "c.json"),
      Error);
}

TEST(ConfigFile, NoValueHidesAnother) {
  const auto yaml =
      parse_config("A: {N: 1}\na: {n: 2}\n---\na: {n: 3}\n---\n", "c.yaml");
  EXPECT_EQ(yaml.at("a.n").text, "1");
  EXPECT_EQ(yaml.at("a.n#2").text, "2");
  EXPECT_EQ(yaml.at("document2.a.n").text, "3");
  const auto json = parse_config("{\"X\": 1, \"x\": 2, \"x\": 3}", "c.json");
  EXPECT_EQ(json.at("x").text, "1");
  EXPECT_EQ(json.at("x#2").text, "3");  // as Python reads it
}

}  // namespace
}  // namespace assay::env
