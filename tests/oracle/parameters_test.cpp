// A parameter is read as what it says or the case fails, by name.
#include "tests/oracle/parameters.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "assay/base/error.h"

namespace assay::oracle {
namespace {

using Read = std::function<void(const Parameters&)>;

std::string message(const char* json, const Read& read) {
  try {
    read(Parameters("a.npz", json));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage);
    return error.what();
  }
  return "no error";
}

TEST(Parameters, AbsentAndWrongTypeAreToldApart) {
  const Read number = [](const Parameters& p) { p.number("eps"); };
  EXPECT_EQ(message("{}", number),
            "a.npz: parameter \"eps\" is absent, expected a number");
  EXPECT_EQ(message(R"({"eps": "1"})", number),
            "a.npz: parameter \"eps\" is \"1\", expected a number");
  EXPECT_EQ(message(R"({"eps": 1})", number), "no error");
  EXPECT_EQ(message(R"({"n": 1.5})", [](const auto& p) { p.integer("n"); }),
            "a.npz: parameter \"n\" is 1.5, expected a whole number");
  EXPECT_EQ(message(R"({"f": 1})", [](const auto& p) { p.flag("f"); }),
            "a.npz: parameter \"f\" is 1, expected true or false");
  EXPECT_EQ(message(R"({"t": 1})", [](const auto& p) { p.text("t"); }),
            "a.npz: parameter \"t\" is 1, expected text");
  EXPECT_EQ(message(R"({"l": [1, "2"]})", [](auto& p) { p.numbers("l"); }),
            "a.npz: parameter \"l\" is [1,\"2\"], expected a list of numbers");
}

TEST(Parameters, UnknownWordsNameTheKnownOnes) {
  const Read format = [](const Parameters& p) { p.fp8_format(); };
  EXPECT_EQ(message(R"({"format": "e5m3"})", format),
            "a.npz: parameter \"format\" is \"e5m3\", expected one of "
            "\"e4m3\", \"e5m2\"");
  const Parameters p("a.npz", R"({"format": "e5m2"})");
  EXPECT_EQ(p.fp8_format(), DType::kE5M2);
}

TEST(Parameters, StatementsMustHold) {
  const auto states = [](const auto& p) { p.states("M", std::int64_t{32}); };
  EXPECT_EQ(message("{}", states), "no error");
  EXPECT_EQ(message(R"({"M": 32})", states), "no error");
  EXPECT_EQ(message(R"({"M": 33})", states),
            "a.npz: parameter \"M\" is 33, expected 32.0");
  const auto list = [](const auto& p) { p.states_list("shape", {2, 3}); };
  EXPECT_EQ(message(R"({"shape": [2, 3]})", list), "no error");
  EXPECT_EQ(message(R"({"shape": [3, 2]})", list),
            "a.npz: parameter \"shape\" is [3,2], expected [2, 3]");
  const auto flag = [](const auto& p) { p.states_flag("fast", false); };
  EXPECT_EQ(message(R"({"fast": true})", flag),
            "a.npz: parameter \"fast\" is true, expected false");
  const auto word = [](const auto& p) { p.one_of("order", {"a"}); };
  EXPECT_EQ(message("{}", word), "no error");
  EXPECT_EQ(message(R"({"order": "b"})", word),
            "a.npz: parameter \"order\" is \"b\", expected \"a\"");
}

TEST(Parameters, WhatNobodyReadIsListed) {
  const Parameters p("a.npz", R"({"eps": 1, "epsilon": 2, "data": "ties",
      "none": null, "situ": {"beta1": 1, "beta2": 2}, "cases": [{"dim": 1}]})");
  p.number("eps");
  p.describes({"data"});
  EXPECT_FALSE(p.has("none"));
  p.object("situ").number("beta1");
  EXPECT_EQ(p.objects("cases").size(), 1u);
  EXPECT_EQ(p.unread(),
            (std::vector<std::string>{"epsilon", "situ.beta2", "cases.0.dim"}));
}

}  // namespace
}  // namespace assay::oracle
