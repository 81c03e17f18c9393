// The tokenizer against RFC 8259, Python's extensions and hostile text.
#include "assay/trace/json_reader.h"

#include <cmath>

#include "tests/trace/trace_test_util.h"

namespace assay {
namespace {

std::string canonical(std::string_view text) {
  JsonReader reader(text, "t");
  std::string out;
  append_json(reader, reader.next(), out);
  EXPECT_EQ(reader.next(), JsonToken::kEnd);
  return out;
}

void drain(std::string_view text) {
  JsonReader reader(text, "t");
  while (reader.next() != JsonToken::kEnd) {
  }
}

TEST(JsonReader, CopiesEveryKindOfValue) {
  EXPECT_EQ(canonical(" { \"a\" : [ 1 , -2.5e+3, true,false , null ],\n"
                      "  \"b\" : { } , \"c\" : [ ] , \"d\" : \"x\\\"y\" } "),
            R"({"a":[1,-2.5e+3,true,false,null],"b":{},"c":[],"d":"x\"y"})");
}

TEST(JsonReader, ReadsPythonsNonFiniteLiterals) {
  JsonReader reader("[NaN, Infinity, -Infinity]", "t");
  reader.next();
  reader.next();
  EXPECT_TRUE(std::isnan(reader.number()));
  reader.next();
  EXPECT_EQ(reader.number(), INFINITY);
  reader.next();
  EXPECT_EQ(reader.number(), -INFINITY);
}

// Values of Python's float() for the same texts.
TEST(JsonReader, NumbersRoundCorrectly) {
  EXPECT_EQ(json_number("3.2820777893066406"), 0x1.a41b2000p+1);
  EXPECT_EQ(json_number("0.1"), 0x1.999999999999ap-4);
  EXPECT_EQ(json_number("5e-324"), 0x1p-1074);
  EXPECT_EQ(json_number("1e400"), INFINITY);
  EXPECT_EQ(json_number("-1e400"), -INFINITY);
  EXPECT_EQ(json_number("1e-400"), 0.0);
  EXPECT_EQ(json_number("9007199254740993"), 9007199254740992.0);
}

// Runs of every length, ended by every kind of byte, near the end of the text
// and far from it.
TEST(JsonReader, FindsTheEndOfEveryRun) {
  for (std::size_t length = 0; length < 50; ++length) {
    const std::string run(length, 'a'), digits(length, '7');
    const std::string blanks(length, length % 2 == 0 ? ' ' : '\n');
    for (const std::string& tail : {std::string(), std::string(40, ' ')}) {
      EXPECT_EQ(canonical("\"" + run + "\"" + tail), "\"" + run + "\"");
      EXPECT_EQ(canonical("\"" + run + "\\n" + run + "\"" + tail),
                "\"" + run + "\n" + run + "\"");
      EXPECT_EQ(canonical("\"" + run + "\xC3\xA9" + run + "\"" + tail),
                "\"" + run + "\xC3\xA9" + run + "\"");
      EXPECT_EQ(canonical("1" + digits + tail), "1" + digits);
      EXPECT_EQ(canonical("[1." + digits + "5e" + digits + "1]" + tail),
                "[1." + digits + "5e" + digits + "1]");
      EXPECT_EQ(canonical("[" + blanks + "1" + blanks + ",\t\r" + blanks + "2" +
                          blanks + "]" + tail),
                "[1,2]");
      for (const char bad : {'\x1f', '\x01', '\0'}) {
        const std::string in_string = "\"" + run + bad + run + "\"" + tail;
        error_of(Code::kRefused, [&] { drain(in_string); });
        const std::string between = "[" + blanks + bad + "1]" + tail;
        error_of(Code::kRefused, [&] { drain(between); });
      }
    }
  }
}

TEST(JsonReader, DecodesEscapes) {
  JsonReader reader(R"("\u00e9\ud83d\ude00\n\/\u0041")", "t");
  EXPECT_EQ(reader.next(), JsonToken::kString);
  EXPECT_EQ(reader.text(), "\xC3\xA9\xF0\x9F\x98\x80\n/A");
}

TEST(JsonReader, KeepsHalfASurrogatePairAsText) {
  JsonReader reader(R"("a\udc80b\ud800\u0041")", "t");
  reader.next();
  EXPECT_EQ(reader.text(), "a\\udc80b\\ud800A");
}

TEST(JsonReader, RefusesWhatIsNoJson) {
  for (const char* text : {"{\"a\":1,}",    "[1,]",       "[1 2]",
                           "{a:1}",         "{\"a\" 1}",  "[01]",
                           "[1.]",          "[.5]",       "[+1]",
                           "[-]",           "[1e]",       "[nan]",
                           "[\"\\x\"]",     "[\"\n\"]",   "[1]]",
                           "{} {}",         "]",          "[}",
                           "{\"a\":1]",     "[\"\xff\"]", "[\"\xc0\x80\"]",
                           "[\"\\uZZZZ\"]", "[-Inf]",     "\"a\"x"}) {
    EXPECT_THROW(drain(text), Error) << text;
  }
}

TEST(JsonReader, NamesTheOffsetOfADefect) {
  const std::string message =
      error_of(Code::kRefused, [] { drain("[1, 2, x]"); });
  EXPECT_EQ(message, "t: offset 7: found 'x', expected a value");
}

TEST(JsonReader, ATextCutAnywhereIsUnreadable) {
  const std::string whole =
      R"({"a": [1.5e-3, NaN, {"b": "c\u00e9", "d": null}], "e": true})";
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(
        error_of(Code::kUnreadable,
                 [&] { drain(std::string_view(whole).substr(0, length)); })
            .find("ends at offset"),
        std::string::npos)
        << length;
  }
}

TEST(JsonReader, CapsTheDepth) {
  const std::string at_cap =
      std::string(400, '[') + "1" + std::string(400, ']');
  EXPECT_NO_THROW(drain(at_cap));
  EXPECT_THROW(drain("[" + at_cap + "]"), Error);
  EXPECT_THROW(drain(std::string(100000, '[')), Error);
  EXPECT_THROW(drain(std::string(100000, '{')), Error);
}

TEST(JsonReader, SkipsWholeValues) {
  JsonReader reader(R"([{"a": [1, {"b": 2}], "c": 3}, 4])", "t");
  reader.next();
  reader.skip(reader.next());
  EXPECT_EQ(reader.next(), JsonToken::kNumber);
  EXPECT_EQ(reader.text(), "4");
}

TEST(JsonReader, SkippingWhereNoValueIsLeftEnds) {
  JsonReader reader("[]", "t");
  reader.next();
  EXPECT_THROW(reader.skip(reader.next()), Error);
  EXPECT_THROW(reader.skip(reader.next()), Error);
  std::string out;
  EXPECT_THROW(append_json(reader, reader.next(), out), Error);
}

}  // namespace
}  // namespace assay
