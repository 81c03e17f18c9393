// Expressions: every meaning is Python's.
#include "assay/conform/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/base/error.h"

namespace assay::conform {
namespace {

using ::testing::HasSubstr;

Parameters some() {
  return {{"tokens", 33},      {"hidden", 128}, {"bias", true},
          {"recipe", "mxfp8"}, {"scale", 0.5},  {"sizes", List{3, 1, 2}},
          {"neg", -7}};
}

struct Row {
  const char* text;
  const char* json;
};

// Values computed by CPython 3.11 from the same text (ceil_div and round_up
// defined as -(-a // b) and -(-a // b) * b).
TEST(Expression, MeansWhatPythonMeans) {
  const Row rows[] = {
      {"1 + 2 * 3", "7"},
      {"(1 + 2) * 3", "9"},
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"7 // -2", "-4"},
      {"neg % 3", "2"},
      {"7 % -3", "-2"},
      {"7.5 // 2", "3.0"},
      {"-7.5 // 2", "-4.0"},
      {"-7.5 % 2", "0.5"},
      {"7.5 % -2", "-0.5"},
      {"6 / 4", "1.5"},
      {"6 / 3", "2.0"},
      {"2 - 3 - 4", "-5"},
      {"2 - (3 - 4)", "3"},
      {"- - 3", "3"},
      {"-2 * -3", "6"},
      {"1e-5", "1e-05"},
      {".5 + 1.", "1.5"},
      {"0.1 + 0.2", "0.30000000000000004"},
      {"tokens % 16 == 1", "true"},
      {"1 < 2 < 3", "true"},
      {"1 < 3 < 2", "false"},
      {"3 > 2 > 1 == true", "true"},
      {"1 == 1.0", "true"},
      {"true == 1", "true"},
      {"true + true", "2"},
      {"bias * 4", "4"},
      {"'a' == 1", "false"},
      {"'b' > 'a'", "true"},
      {"recipe in ['none', 'mxfp8']", "true"},
      {"recipe not in ['none', 'mxfp8']", "false"},
      {"'fp8' in recipe", "true"},
      {"1 in [1.0, 2]", "true"},
      {"[1, 2] == [1.0, 2]", "true"},
      {"not tokens == 33", "false"},
      {"not true or true", "true"},
      {"true or 1 // 0 == 1", "true"},
      {"false and 1 // 0 == 1", "false"},
      {"tokens if bias else hidden", "33"},
      {"1 if false else 2 if false else 3", "3"},
      {"min(3, 1, 2)", "1"},
      {"max(sizes)", "3"},
      {"max(1, 2.5)", "2.5"},
      {"min('b', 'a')", "\"a\""},
      {"abs(neg)", "7"},
      {"abs(-0.5)", "0.5"},
      {"ceil_div(tokens, 16)", "3"},
      {"ceil_div(-7, 2)", "-3"},
      {"round_up(tokens, 16)", "48"},
      {"round_up(32, 16)", "32"},
      {"len(sizes)", "3"},
      {"len(recipe)", "5"},
      {"sum(sizes)", "6"},
      {"sum([0.5, 1])", "1.5"},
      {"-9223372036854775807 - 1", "-9223372036854775808"},
      {"9007199254740993 == 9007199254740992.0", "false"},
      {"9007199254740993 > 9007199254740992.0", "true"},
      {"-9223372036854775807 // -1", "9223372036854775807"},
      {"hidden * scale", "64.0"},
      {"[tokens, hidden // 2]", "[33, 64]"},
      {"2 * (3 if bias else 1)", "6"},
      {"-7 % 3", "2"},
      {"(-9223372036854775807 - 1) % 47", "11"},
    {"(-9223372036854775807 - 1) // 47", "-196241958230952677"},
    {"-(7 % 3)", "-1"},
      {"(tokens + 15) // 16 * 16", "48"},
  };
  for (const Row& row : rows)
    EXPECT_EQ(to_json(Expression::parse(row.text, "t").evaluate(some())),
              row.json)
        << row.text;
}

std::string refusal(const std::string& text) {
  try {
    Expression::parse(text, "specs/x.yaml:3").evaluate(some());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUsage) << text;
    return error.what();
  }
  return "no error";
}

TEST(Expression, NamesPlaceAndReasonInOneLine) {
  EXPECT_EQ(refusal("1 +"),
            "specs/x.yaml:3: 1 +: expected a value, found the end, at column "
            "4");
  EXPECT_EQ(refusal("tokens tokens"),
            "specs/x.yaml:3: tokens tokens: expected an operator, found "
            "'tokens', at column 8");
  EXPECT_EQ(refusal("tokns * 2"),
            "specs/x.yaml:3: tokns * 2: no parameter 'tokns', at column 1");
  EXPECT_EQ(refusal("1 + 'a'"),
            "specs/x.yaml:3: 1 + 'a': arithmetic on \\\"a\\\", at column 3");
}

TEST(Expression, RefusesWhatHasNoValue) {
  const Row rows[] = {
      {"1 // 0", "division by zero"},
      {"1 % 0", "division by zero"},
      {"1.5 / 0", "division by zero"},
      {"1 / 0.0", "division by zero"},
      {"9223372036854775807 + 1", "beyond 64 bits"},
      {"9223372036854775808", "beyond 64 bits"},
      {"-9223372036854775807 - 2", "beyond 64 bits"},
      {"(-9223372036854775807 - 1) // -1", "beyond 64 bits"},
      {"abs(-9223372036854775807 - 1)", "beyond 64 bits"},
      {"4611686018427387904 * 2", "beyond 64 bits"},
      {"1e308 * 10", "beyond double precision"},
      {"1e999", "beyond double precision"},
      {"007", "leading zero"},
      {"12ab", "is no number"},
      {"1.2.3", "is no number"},
      {"'a' < 1", "have no order"},
      {"tokens and true", "is no condition"},
      {"not 1", "is no condition"},
      {"1 if 2 else 3", "is no condition"},
      {"1 in 2", "expected a list"},
      {"ceil_div(1, 0)", "division by 0"},
      {"ceil_div(1)", "ceil_div of 1 arguments"},
      {"ceil_div(1.5, 2)", "two integers"},
      {"min([])", "empty list"},
      {"min(3)", "expected a list"},
      {"len(3)", "no length"},
      {"sum(3)", "expected a list"},
      {"open('x')", "no function 'open'"},
      {"__import__('os')", "no function '__import__'"},
      {"tokens.real", "'.' has no meaning"},
      {"2 ** 3", "expected a value, found '*'"},
      {"'a", "does not end"},
      {"'a\\n'", "backslash"},
      {"(1", "expected ')'"},
      {"[1 2]", "expected ','"},
      {"1 if true", "expected 'else'"},
      {"1 not 2", "expected 'in'"},
      {"if", "expected a value"},
      {"", "expected a value"},
      {"\xff", "has no meaning"},
  };
  for (const Row& row : rows)
    EXPECT_THAT(refusal(row.text), HasSubstr(row.json)) << row.text;
}

TEST(Expression, LimitsLengthAndDepthButNotTheNumberOfTerms) {
  std::string sum = "0";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  EXPECT_EQ(Expression::parse(sum, "t").evaluate({}), Value(1000));
  const std::string open(63, '('), close(63, ')');
  EXPECT_EQ(Expression::parse(open + "1" + close, "t").evaluate({}), Value(1));
  EXPECT_THAT(refusal("(" + open + "1" + close + ")"), HasSubstr("nested"));
  EXPECT_THAT(refusal(std::string(4000, '(')), HasSubstr("nested"));
  EXPECT_THAT(refusal(std::string(4000, '-') + "1"), HasSubstr("nested"));
  EXPECT_THAT(refusal(std::string(4097, ' ')), HasSubstr("4097 bytes"));
}

TEST(Expression, TellsWhichParametersItReads) {
  const Expression e =
      Expression::parse("min(a, b) if c == 'd' else [true, e]", "t");
  EXPECT_EQ(e.names(), (std::set<std::string>{"a", "b", "c", "e"}));
  EXPECT_EQ(e.text(), "min(a, b) if c == 'd' else [true, e]");
}

TEST(Expression, HoldsOnlyForConditions) {
  EXPECT_TRUE(Expression::parse("tokens == 33", "t").holds(some()));
  EXPECT_FALSE(Expression::parse("tokens == 3", "t").holds(some()));
  EXPECT_THROW(Expression::parse("tokens", "t").holds(some()), Error);
}

}  // namespace
}  // namespace assay::conform
