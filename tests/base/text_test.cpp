// Text helpers: globbing, natural order, UTF-8, what people read.
#include "assay/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace assay {
namespace {

using testing::ElementsAre;

TEST(Text, Split) {
  EXPECT_THAT(split("a,b,,c", ','), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
}

TEST(Text, Trim) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, IgnoresAsciiCase) {
  EXPECT_TRUE(iequals("Float32", "fLOAT32"));
  EXPECT_FALSE(iequals("float32", "float3"));
}

TEST(Text, Glob) {
  EXPECT_TRUE(glob_match("*", ""));
  EXPECT_TRUE(glob_match("Module.*.forward.?", "Module.a.b.forward.0"));
  EXPECT_FALSE(glob_match("Module.*.forward.?", "Module.a.forward.10"));
  EXPECT_TRUE(glob_match("*a*b*", "xxaxxaxbx"));
  EXPECT_FALSE(glob_match("*a*b", "xxaxxaxbx"));
  EXPECT_TRUE(glob_match("a.b", "a.b"));
  EXPECT_FALSE(glob_match("a.b", "axb"));
  EXPECT_FALSE(glob_match("", "a"));
  EXPECT_TRUE(glob_match("[x]", "[x]"));
}

// A pattern of many stars must not take exponential time.
TEST(Text, GlobIsNotExponential) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  pattern += 'b';
  EXPECT_FALSE(glob_match(pattern, std::string(2000, 'a')));
}

TEST(Text, F70_StepTenComesAfterStepTwo) {
  std::vector<std::string> names = {"step_10", "step_2",  "step_1", "step_02",
                                    "step",    "step_2a", "rank"};
  std::sort(names.begin(), names.end(), natural_less);
  EXPECT_THAT(names, ElementsAre("rank", "step", "step_1", "step_02", "step_2",
                                 "step_2a", "step_10"));
}

// Numbers of any length, and a strict order on every pair.
TEST(Text, NaturalOrderIsStrict) {
  EXPECT_TRUE(natural_less("18446744073709551616", "18446744073709551617"));
  const std::vector<std::string> names = {"",   "0",  "00", "1",   "01",  "a",
                                          "a0", "a1", "1a", "01a", "a01b"};
  for (const auto& a : names) {
    for (const auto& b : names)
      EXPECT_EQ(natural_less(a, b) + natural_less(b, a), a != b)
          << a << " " << b;
  }
}

TEST(Text, Utf8) {
  EXPECT_TRUE(is_valid_utf8("plain, \xc3\xa9, \xe5\xb1\x82, \xf0\x9f\x98\x80"));
  EXPECT_FALSE(is_valid_utf8("\xc0\xaf"));          // overlong '/'
  EXPECT_FALSE(is_valid_utf8("\xe0\x80\xaf"));      // overlong
  EXPECT_FALSE(is_valid_utf8("\xed\xa0\x80"));      // surrogate
  EXPECT_FALSE(is_valid_utf8("\xf4\x90\x80\x80"));  // past U+10FFFF
  EXPECT_FALSE(is_valid_utf8("\xe5\xb1"));          // cut short
  EXPECT_FALSE(is_valid_utf8("\x80"));
}

TEST(Text, Printable) {
  EXPECT_EQ(printable("a\x1b[31m\n"), "a\\x1b[31m\\x0a");
  EXPECT_EQ(printable("\xff\xe5\xb1\x82"), "\\xff\xe5\xb1\x82");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // C1 control sequence
}

TEST(Text, HumanFigures) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(3'900'000'000), "3.9 GB");
  EXPECT_EQ(human_bytes(999'990), "1.0 MB");
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(41203), "41,203");
  EXPECT_EQ(human_count(-1234567), "-1,234,567");
  EXPECT_EQ(human_seconds(130), "2 min 10 s");
}

TEST(Text, FormatDoubleRoundTrips) {
  EXPECT_EQ(format_double(0.1), "0.1");
  EXPECT_EQ(format_double(-0.0), "-0");
  EXPECT_EQ(format_double(HUGE_VAL), "inf");
  EXPECT_EQ(format_double(-HUGE_VAL), "-inf");
  EXPECT_EQ(format_double(NAN), "nan");
  for (const double x : {1.0 / 3, 5e-324, 1.7976931348623157e308, 1e23})
    EXPECT_EQ(std::strtod(format_double(x).c_str(), nullptr), x);
}

TEST(Text, FormatFigure) {
  EXPECT_EQ(format_figure(4.7e-4), "4.70e-04");
  EXPECT_EQ(format_figure(0), "0");
  EXPECT_EQ(format_figure(0.99981), "0.9998");
  EXPECT_EQ(format_figure(NAN), "nan");
}

TEST(Text, Closest) {
  const std::vector<std::string> verbs = {"compare", "inspect", "convert"};
  EXPECT_EQ(closest("comapre", verbs), "compare");
  EXPECT_EQ(closest("conver", verbs), "convert");
  EXPECT_EQ(closest("zzzzzz", verbs), "");
  EXPECT_EQ(closest("a", {}), "");
}

}  // namespace
}  // namespace assay
