#include "assay/base/text_out.h"

#include <fmt/compile.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace assay {
namespace {

constexpr char kHex[] = "0123456789abcdef";

std::string_view nonfinite_text(double value) {
  if (std::isnan(value)) return "nan";
  return value > 0 ? "inf" : "-inf";
}

// The text of one double, kept for the next time it is asked for.
struct SpelledDouble {
  std::uint64_t bits = 0;
  std::uint8_t length = 0;
  char text[31] = {};  // at most 24 characters: "-2.2250738585072014e-308"
};
constexpr int kSpelledShift = 64 - 8;
constexpr std::size_t kSpelledDoubles = 1 << 8;

// fmt lays a double out as Python does, but for the ".0" of whole numbers.
void spell(SpelledDouble& entry, double value) {
  char* end = fmt::format_to(entry.text, FMT_COMPILE("{}"), value);
  // Above 1e16 the text has an exponent instead.
  const bool whole = std::trunc(value) == value && std::abs(value) < 1e16;
  if (whole) {
    *end++ = '.';
    *end++ = '0';
  }
  entry.bits = std::bit_cast<std::uint64_t>(value);
  entry.length = static_cast<std::uint8_t>(end - entry.text);
}

void append_escaped_byte(std::string& out, unsigned char byte) {
  const char text[] = {'\xEF', '\xBF', '\xBD', kHex[byte >> 4],
                       kHex[byte & 15]};
  out.append(text, sizeof text);
}

bool is_control(unsigned char c) { return c < 0x20 || c == 0x7f; }

// Whether commas count among the plain bytes: csv alone minds them.
enum class Commas : bool { kSpecial, kPlain };

template <Commas commas>
bool is_plain(char c) {
  return c >= 0x20 && c < 0x7f && c != '"' && c != '\\' &&
         (commas == Commas::kPlain || c != ',');
}

// Sixteen bytes that are tested at once: every lane of a comparison is 0 or
// 255.
using Block = unsigned char __attribute__((vector_size(16)));

template <Commas commas>
bool is_plain_block(const char* at) {
  Block c;
  std::memcpy(&c, at, sizeof c);
  auto special = (c < 0x20) | (c >= 0x7f) | (c == '"') | (c == '\\');
  if constexpr (commas == Commas::kSpecial) special |= (c == ',');
  std::uint64_t halves[2];
  std::memcpy(halves, &special, sizeof halves);
  return (halves[0] | halves[1]) == 0;
}

template <Commas commas>
std::size_t plain_run(std::string_view text) {
  std::size_t i = 0;
  while (i + sizeof(Block) <= text.size() &&
         is_plain_block<commas>(text.data() + i))
    i += sizeof(Block);
  // What is left of a block, tested together with what precedes it.
  if (i > 0 && text.size() - i < sizeof(Block) &&
      is_plain_block<commas>(text.data() + text.size() - sizeof(Block)))
    return text.size();
  while (i < text.size() && is_plain<commas>(text[i])) ++i;
  return i;
}

void append_json_control(std::string& out, unsigned char c) {
  switch (c) {
    case '\n':
      out.append("\\n");
      return;
    case '\t':
      out.append("\\t");
      return;
    case '\r':
      out.append("\\r");
      return;
    default:
      out.append("\\u00");
      out.push_back(kHex[c >> 4]);
      out.push_back(kHex[c & 15]);
  }
}

bool is_replacement(std::string_view sequence) {
  return sequence == "\xEF\xBF\xBD";
}

// Appends one non-ASCII sequence or one invalid byte; returns bytes consumed.
std::size_t append_sequence(std::string& out, std::string_view rest) {
  const int length = utf8_sequence(rest);
  if (length == 0) {
    append_escaped_byte(out, static_cast<unsigned char>(rest[0]));
    return 1;
  }
  const std::string_view sequence = rest.substr(0, length);
  if (is_replacement(sequence)) {
    for (const char c : sequence)
      append_escaped_byte(out, static_cast<unsigned char>(c));
  } else {
    out.append(sequence);
  }
  return sequence.size();
}

}  // namespace

void append_int(std::string& out, std::int64_t value) {
  if (value >= 0 && value < 10) {
    out.push_back(static_cast<char>('0' + value));
    return;
  }
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

void append_uint(std::string& out, std::uint64_t value) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out.append(nonfinite_text(value));
    return;
  }
  // Figures repeat: both sides of a row that matches, an output and the next
  // operator's input. Looking the text up costs a tenth of making it.
  thread_local std::array<SpelledDouble, kSpelledDoubles> cache;
  const auto bits = std::bit_cast<std::uint64_t>(value);
  SpelledDouble& entry = cache[(bits * 0x9E3779B97F4A7C15u) >> kSpelledShift];
  if (entry.length == 0 || entry.bits != bits) spell(entry, value);
  out.append(entry.text, entry.length);
}

void append_short(std::string& out, double value, int digits) {
  if (!std::isfinite(value)) {
    out.append(nonfinite_text(value));
    return;
  }
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 std::chars_format::general, digits)
                       .ptr;
  out.append(text, end);
}

int utf8_sequence(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return static_cast<unsigned char>(text[i]);
  };
  if (text.empty()) return 0;
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  const int length = lead < 0xc2   ? 0
                     : lead < 0xe0 ? 2
                     : lead < 0xf0 ? 3
                     : lead < 0xf5 ? 4
                                   : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return 0;
  for (int i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  // Overlong three and four byte forms, surrogates, over U+10FFFF.
  if ((lead == 0xe0 && at(1) < 0xa0) || (lead == 0xed && at(1) > 0x9f) ||
      (lead == 0xf0 && at(1) < 0x90) || (lead == 0xf4 && at(1) > 0x8f))
    return 0;
  return length;
}

std::size_t plain_prefix(std::string_view text) {
  return plain_run<Commas::kSpecial>(text);
}

void append_utf8(std::string& out, std::string_view text,
                 bool escape_controls) {
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t plain = plain_prefix(text.substr(i));
    out.append(text.substr(i, plain));
    i += plain;
    if (i == text.size()) return;
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      i += append_sequence(out, text.substr(i));
      continue;
    }
    if (escape_controls && is_control(c))
      append_escaped_byte(out, c);
    else
      out.push_back(text[i]);
    ++i;
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t plain = plain_run<Commas::kPlain>(text.substr(i));
    out.append(text.substr(i, plain));
    i += plain;
    if (i == text.size()) break;
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      i += append_sequence(out, text.substr(i));
      continue;
    }
    if (c < 0x20) {
      append_json_control(out, c);
    } else {
      if (c == '"' || c == '\\') out.push_back('\\');
      out.push_back(static_cast<char>(c));
    }
    ++i;
  }
  out.push_back('"');
}

void append_json_double(std::string& out, double value) {
  if (std::isfinite(value)) {
    append_double(out, value);
    return;
  }
  out.push_back('"');
  out.append(nonfinite_text(value));
  out.push_back('"');
}

}  // namespace assay
