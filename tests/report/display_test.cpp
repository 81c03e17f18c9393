#include "assay/report/display.h"

#include <gtest/gtest.h>

namespace assay {
namespace {

TEST(SafeText, EscapesTerminalControls) {
  EXPECT_EQ(safe_text("a\x1b[31mb\n"), "a\\x1b[31mb\\x0a");
  EXPECT_EQ(safe_text("\xFFz"), "\\xffz");
  EXPECT_EQ(safe_text("\xC2\x9B"
                      "1m"),
            "\\x9b1m");  // C1 CSI
  EXPECT_EQ(safe_text("a\xE2\x80\xAE"
                      "b"),
            "a\\u202eb");                                // RLO
  EXPECT_EQ(safe_text("\xE5\xB1\x82"), "\xE5\xB1\x82");  // 层
}

TEST(DisplayWidth, CountsColumns) {
  EXPECT_EQ(display_width("abc"), 3u);
  EXPECT_EQ(display_width("\xE5\xB1\x82"), 2u);  // wide
  EXPECT_EQ(display_width("e\xCC\x81"), 1u);     // combining accent
}

TEST(Elide, KeepsWhatFits) {
  EXPECT_EQ(elide_middle("abcdef", 6), "abcdef");
  EXPECT_EQ(elide_middle("abcdefgh", 7),
            "ab\xE2\x80\xA6"
            "efgh");
  EXPECT_EQ(elide_middle("abcdefgh", 4), "a\xE2\x80\xA6gh");
  EXPECT_EQ(elide_end("abcdefgh", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(elide_end("abc", 0), "");
}

TEST(Elide, NeverCutsACharacter) {
  const std::string wide = "\xE5\xB1\x82\xE5\xB1\x82\xE5\xB1\x82";  // 6 columns
  EXPECT_EQ(elide_middle(wide, 5), "\xE2\x80\xA6\xE5\xB1\x82");
  for (std::size_t width = 1; width < 6; ++width) {
    EXPECT_LE(display_width(elide_middle(wide, width)), width);
    EXPECT_LE(display_width(elide_end(wide, width)), width);
  }
}

TEST(PadRight, FillsColumns) {
  EXPECT_EQ(pad_right("\xE5\xB1\x82", 4), "\xE5\xB1\x82  ");
  EXPECT_EQ(pad_right("abcd", 2), "abcd");
}

}  // namespace
}  // namespace assay
