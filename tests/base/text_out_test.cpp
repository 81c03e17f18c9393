#include "assay/base/text_out.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

namespace assay {
namespace {

std::string spelled(double value) {
  std::string out;
  append_double(out, value);
  return out;
}

std::string utf8(std::string_view text, bool controls = false) {
  std::string out;
  append_utf8(out, text, controls);
  return out;
}

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

// Expected texts are Python's repr() of the same values.
TEST(AppendDouble, SpellsAsPythonDoes) {
  EXPECT_EQ(spelled(0.0), "0.0");
  EXPECT_EQ(spelled(-0.0), "-0.0");
  EXPECT_EQ(spelled(1.0), "1.0");
  EXPECT_EQ(spelled(-25.0), "-25.0");
  EXPECT_EQ(spelled(0.1), "0.1");
  EXPECT_EQ(spelled(0.0001), "0.0001");
  EXPECT_EQ(spelled(0.00001), "1e-05");
  EXPECT_EQ(spelled(123456789.5), "123456789.5");
  EXPECT_EQ(spelled(1e15), "1000000000000000.0");
  EXPECT_EQ(spelled(1e16), "1e+16");
  EXPECT_EQ(spelled(1.5e300), "1.5e+300");
  EXPECT_EQ(spelled(5e-324), "5e-324");
  EXPECT_EQ(spelled(-2.2250738585072014e-308), "-2.2250738585072014e-308");
  EXPECT_EQ(spelled(0.4990234375), "0.4990234375");
}

TEST(AppendDouble, SpellsWhatIsNotFinite) {
  EXPECT_EQ(spelled(NAN), "nan");
  EXPECT_EQ(spelled(INFINITY), "inf");
  EXPECT_EQ(spelled(-INFINITY), "-inf");
}

TEST(AppendDouble, RoundTripsEveryBit) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 100'000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    const std::string text = spelled(value);
    ASSERT_EQ(std::bit_cast<std::uint64_t>(std::strtod(text.c_str(), nullptr)),
              std::bit_cast<std::uint64_t>(value))
        << text;
    ASSERT_EQ(spelled(value), text);  // the second time from memory
  }
}

TEST(AppendShort, KeepsTheAskedDigits) {
  std::string out;
  append_short(out, 0.0047123456, 3);
  out += ' ';
  append_short(out, 1.23456789e-9, 6);
  EXPECT_EQ(out, "0.00471 1.23457e-09");
}

TEST(Utf8Sequence, AcceptsOnlyTheShortestFormOfAScalarValue) {
  EXPECT_EQ(utf8_sequence("a"), 1);
  EXPECT_EQ(utf8_sequence("\xC3\xA9"), 2);
  EXPECT_EQ(utf8_sequence("\xE5\xB1\x82"), 3);
  EXPECT_EQ(utf8_sequence("\xF0\x9F\x98\x80"), 4);
  EXPECT_EQ(utf8_sequence("\xC0\x80"), 0);          // overlong NUL
  EXPECT_EQ(utf8_sequence("\xE0\x80\x80"), 0);      // overlong
  EXPECT_EQ(utf8_sequence("\xED\xA0\x80"), 0);      // surrogate
  EXPECT_EQ(utf8_sequence("\xF4\x90\x80\x80"), 0);  // over U+10FFFF
  EXPECT_EQ(utf8_sequence("\xE5\xB1"), 0);          // cut
  EXPECT_EQ(utf8_sequence("\x80"), 0);              // a continuation
}

TEST(AppendUtf8, EscapesInvalidBytesReversibly) {
  EXPECT_EQ(utf8("a\xFFz"),
            "a\xEF\xBF\xBD"
            "ffz");
  EXPECT_EQ(utf8("\xE5\xB1"),
            "\xEF\xBF\xBD"
            "e5\xEF\xBF\xBD"
            "b1");
  // A replacement character that was there cannot be taken for an escape.
  EXPECT_EQ(utf8("\xEF\xBF\xBD"
                 "ff"),
            "\xEF\xBF\xBD"
            "ef\xEF\xBF\xBD"
            "bf\xEF\xBF\xBD"
            "bdff");
  EXPECT_EQ(utf8("\xE5\xB1\x82.0"), "\xE5\xB1\x82.0");
}

TEST(AppendUtf8, EscapesControlsWhenAsked) {
  EXPECT_EQ(utf8("a\x1b[2J"), "a\x1b[2J");
  EXPECT_EQ(utf8("a\x1b[2J", true),
            "a\xEF\xBF\xBD"
            "1b[2J");
  EXPECT_EQ(utf8("\x7f", true),
            "\xEF\xBF\xBD"
            "7f");
}

TEST(AppendJsonString, EscapesWhatJsonForbids) {
  EXPECT_EQ(json("plain.name_0, [1]"), "\"plain.name_0, [1]\"");
  EXPECT_EQ(json("a\"b\\c"), "\"a\\\"b\\\\c\"");
  EXPECT_EQ(json("\n\t\r\x01"), "\"\\n\\t\\r\\u0001\"");
  EXPECT_EQ(json(std::string_view("\0", 1)), "\"\\u0000\"");
}

TEST(AppendJsonString, EscapesAtEveryPosition) {
  for (std::size_t length = 1; length < 50; ++length) {
    for (std::size_t at = 0; at < length; ++at) {
      const std::string before(at, 'a'), after(length - at - 1, ',');
      EXPECT_EQ(json(before + '"' + after),
                '"' + before + "\\\"" + after + '"');
    }
  }
}

TEST(PlainPrefix, FindsTheFirstSpecialByteAtEveryPosition) {
  for (const char special :
       {'"', '\\', ',', '\x1f', '\x7f', '\x80', '\xff', '\0', '\n'}) {
    for (std::size_t length = 1; length < 50; ++length) {
      for (std::size_t at = 0; at < length; ++at) {
        std::string text(length, 'a');
        text[at] = special;
        EXPECT_EQ(plain_prefix(text), at) << int(special) << ' ' << length;
      }
    }
  }
  for (int c = 0x20; c < 0x7f; ++c) {
    if (c == '"' || c == '\\' || c == ',') continue;
    EXPECT_EQ(plain_prefix(std::string(9, static_cast<char>(c))), 9u) << c;
  }
}

}  // namespace
}  // namespace assay
