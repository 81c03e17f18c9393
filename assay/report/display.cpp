#include "assay/report/display.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "assay/base/text.h"
#include "assay/base/text_out.h"

namespace assay {
namespace {

constexpr std::string_view kEllipsis = "\xE2\x80\xA6";

// One character: its bytes and the columns it takes.
struct Glyph {
  std::string_view bytes;
  std::size_t width;
};

char32_t decode(std::string_view s) {
  const auto at = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(s[i]));
  };
  switch (s.size()) {
    case 1:
      return at(0);
    case 2:
      return (at(0) & 0x1f) << 6 | (at(1) & 0x3f);
    case 3:
      return (at(0) & 0x0f) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
    default:
      return (at(0) & 0x07) << 18 | (at(1) & 0x3f) << 12 | (at(2) & 0x3f) << 6 |
             (at(3) & 0x3f);
  }
}

// Ranges that matter in names and paths, after Unicode's EastAsianWidth.txt.
bool is_wide(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kWide[] = {
      {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
      {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
      {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
      {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
      {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
  };
  return std::any_of(std::begin(kWide), std::end(kWide), [c](const auto& r) {
    return c >= r.first && c <= r.second;
  });
}

bool is_zero_width(char32_t c) {
  return (c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200d) ||
         (c >= 0xfe00 && c <= 0xfe0f) || c == 0xfeff;
}

// Characters that move the cursor, reorder the line or cannot be seen.
bool is_unsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x200e || c == 0x200f ||
         c == 0x2028 || c == 0x2029 || (c >= 0x202a && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

void append_hex(std::string& out, std::uint32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out.push_back("0123456789abcdef"[value >> shift & 15]);
}

void append_escape(std::string& out, char32_t c) {
  out.append(c < 0x100 ? "\\x" : "\\u");
  append_hex(out, static_cast<std::uint32_t>(c), c < 0x100 ? 2 : 4);
}

std::vector<Glyph> glyphs(std::string_view text) {
  std::vector<Glyph> result;
  result.reserve(text.size());
  while (!text.empty()) {
    const auto length =
        static_cast<std::size_t>(std::max(1, utf8_sequence(text)));
    const std::string_view bytes = text.substr(0, length);
    const char32_t c = decode(bytes);
    result.push_back({bytes, is_zero_width(c) ? 0u : is_wide(c) ? 2u : 1u});
    text.remove_prefix(length);
  }
  return result;
}

// Glyphs from `begin` by `step` that fit in `width` columns.
template <class Iterator>
std::size_t fitting(Iterator begin, Iterator end, std::size_t width) {
  std::size_t used = 0, count = 0;
  for (; begin != end && used + begin->width <= width; ++begin, ++count)
    used += begin->width;
  return count;
}

}  // namespace

std::string safe_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const int length = utf8_sequence(text);
    if (length == 0) {
      append_escape(out, static_cast<unsigned char>(text[0]));
      text.remove_prefix(1);
      continue;
    }
    const std::string_view bytes = text.substr(0, length);
    const char32_t c = decode(bytes);
    if (is_unsafe(c))
      append_escape(out, c);
    else
      out.append(bytes);
    text.remove_prefix(bytes.size());
  }
  return out;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (const Glyph& glyph : glyphs(text)) width += glyph.width;
  return width;
}

std::string elide_middle(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  const auto all = glyphs(text);
  // The tail of a tensor name tells more than its head: it gets two thirds.
  const std::size_t room = (width - 1) / 3;
  const std::size_t head = fitting(all.begin(), all.end(), room);
  const std::size_t tail = fitting(all.rbegin(), all.rend(), width - 1 - room);
  std::string out;
  for (std::size_t i = 0; i < head; ++i) out.append(all[i].bytes);
  out.append(kEllipsis);
  for (std::size_t i = all.size() - tail; i < all.size(); ++i)
    out.append(all[i].bytes);
  return out;
}

std::string elide_end(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return "";
  const auto all = glyphs(text);
  std::string out;
  const std::size_t head = fitting(all.begin(), all.end(), width - 1);
  for (std::size_t i = 0; i < head; ++i) out.append(all[i].bytes);
  return out.append(kEllipsis);
}

std::string plural(std::int64_t count, std::string_view word) {
  return human_count(count) + " " + std::string(word) + (count == 1 ? "" : "s");
}

std::string pad_right(std::string_view text, std::size_t width) {
  std::string out(text);
  const std::size_t used = display_width(text);
  if (used < width) out.append(width - used, ' ');
  return out;
}

}  // namespace assay
