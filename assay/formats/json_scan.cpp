#include "assay/formats/json_scan.h"

#include <limits>

#include "assay/base/text.h"
#include "assay/formats/bytes.h"

namespace assay {
namespace {

constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kDelimiters = " \t\r\n,:[]{}\"";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t from) {
  while (from < text.size() && is_digit(text[from])) ++from;
  return from;
}

// End of the number at the start of `text` by JSON's grammar, 0 if none.
std::size_t number_end(std::string_view text) {
  std::size_t at = !text.empty() && text[0] == '-';
  const std::size_t whole = at;
  at = skip_digits(text, at);
  if (at == whole || (text[whole] == '0' && at > whole + 1)) return 0;
  if (at < text.size() && text[at] == '.') {
    const std::size_t end = skip_digits(text, at + 1);
    if (end == at + 1) return 0;
    at = end;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const std::size_t end = skip_digits(text, at);
    if (end == at) return 0;
    at = end;
  }
  return at;
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

// Undoes the escapes of one string.
class Unescaper {
 public:
  Unescaper(const JsonText& text, std::string_view file)
      : text_(text), file_(file) {}

  std::string run() {
    std::string out;
    out.reserve(text_.raw.size());
    while (at_ < text_.raw.size()) {
      const char c = text_.raw[at_++];
      if (c == '\\') {
        escape(out);
      } else {
        out += c;
      }
    }
    return out;
  }

 private:
  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char c = at_ < text_.raw.size() ? text_.raw[at_++] : '\0';
    if (c == 'u') return append_utf8(out, code_point());
    const std::size_t known = kNames.find(c);
    if (known == std::string_view::npos) fail("an unknown escape");
    out += kValues[known];
  }

  std::uint32_t code_point() {
    const std::uint32_t high = four_digits();
    if (high < 0xd800 || high > 0xdfff) return high;
    if (high > 0xdbff || !text_.raw.substr(at_).starts_with("\\u"))
      fail("a lone surrogate");
    at_ += 2;
    const std::uint32_t low = four_digits();
    if (low < 0xdc00 || low > 0xdfff) fail("a lone surrogate");
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
  }

  std::uint32_t four_digits() {
    if (text_.raw.size() - at_ < 4) fail("a cut \\u escape");
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_value(text_.raw[at_++]);
      if (digit < 0) fail("a \\u escape without four hex digits");
      value = value << 4 | static_cast<std::uint32_t>(digit);
    }
    return value;
  }

  [[noreturn]] void fail(std::string_view found) const {
    refuse(file_, text_.offset + at_, found, "a valid JSON string");
  }

  const JsonText& text_;
  std::string_view file_;
  std::size_t at_ = 0;
};

}  // namespace

std::string json_decode(const JsonText& text, std::string_view file) {
  std::string out =
      text.escaped ? Unescaper(text, file).run() : std::string(text.raw);
  if (!is_valid_utf8(out))
    refuse(file, text.offset, "a string that is no UTF-8", "UTF-8");
  return out;
}

char JsonScanner::peek() {
  position_ = text_.find_first_not_of(kSpace, position_);
  if (position_ == std::string_view::npos) position_ = text_.size();
  return position_ < text_.size() ? text_[position_] : '\0';
}

std::string_view JsonScanner::token() const {
  const std::string_view rest = text_.substr(position_, 32);
  const std::size_t end = rest.find_first_of(kDelimiters);
  return rest.substr(0, end == 0 ? 1 : end);
}

void JsonScanner::fail(std::string_view expected) const {
  const std::string_view found = token();
  refuse(
      file_, offset(),
      found.empty() ? "the end of the JSON text" : "'" + printable(found) + "'",
      expected);
}

void JsonScanner::expect(char character) {
  if (peek() != character || position_ == text_.size())
    fail("'" + std::string(1, character) + "'");
  ++position_;
}

void JsonScanner::open(char bracket) {
  expect(bracket);
  if (++depth_ > kMaxDepth) {
    refuse(file_, offset(), "JSON nested deeper",
           "at most " + std::to_string(kMaxDepth) + " levels");
  }
}

bool JsonScanner::next(char closing, bool first) {
  const char c = peek();
  if (c == closing) {
    ++position_;
    --depth_;
    return false;
  }
  if (!first) {
    if (c != ',') fail("',' or '" + std::string(1, closing) + "'");
    ++position_;
  }
  return true;
}

JsonText JsonScanner::string_token() {
  if (peek() != '"') fail("a string");
  ++position_;
  const std::size_t begin = position_;
  bool escaped = false;
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (c == '"') {
      const JsonText text{text_.substr(begin, position_ - begin), escaped,
                          base_ + begin};
      ++position_;
      return text;
    }
    if (c == '\\') {
      escaped = true;
      ++position_;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      refuse(file_, offset(), "a control character in a string", "its escape");
    }
  }
  position_ = text_.size();
  fail("'\"' closing the string at offset " +
       std::to_string(base_ + begin - 1));
}

std::string JsonScanner::string() { return json_decode(string_token(), file_); }

std::int64_t JsonScanner::non_negative_integer() {
  constexpr std::string_view kExpected = "an integer from 0 to 2^63 - 1";
  peek();
  const std::string_view digits = token();
  const bool plain = skip_digits(digits, 0) == digits.size() &&
                     !digits.empty() &&
                     (digits[0] != '0' || digits.size() == 1);
  if (!plain) fail(kExpected);
  std::int64_t value = 0;
  for (const char c : digits) {
    if (__builtin_mul_overflow(value, 10, &value) ||
        __builtin_add_overflow(value, c - '0', &value)) {
      fail(kExpected);
    }
  }
  position_ += digits.size();
  return value;
}

void JsonScanner::skip_literal(std::string_view word) {
  if (token() != word) fail("a JSON value");
  position_ += word.size();
}

void JsonScanner::skip_number() {
  const std::string_view rest = text_.substr(position_);
  if (rest.starts_with("-I")) return skip_literal("-Infinity");
  const std::size_t end = number_end(rest);
  if (end == 0) fail("a JSON value");
  position_ += end;
}

void JsonScanner::skip_value() {
  switch (peek()) {
    case '{': {
      for (JsonObject object(*this); object.next();) skip_value();
      return;
    }
    case '[': {
      for (JsonArray array(*this); array.next();) skip_value();
      return;
    }
    case '"':
      string_token();
      return;
    case 't':
      return skip_literal("true");
    case 'f':
      return skip_literal("false");
    case 'n':
      return skip_literal("null");
    case 'N':
      return skip_literal("NaN");
    case 'I':
      return skip_literal("Infinity");
    default:
      skip_number();
  }
}

void JsonScanner::finish() {
  if (peek() != '\0' || position_ < text_.size())
    fail("nothing after the JSON value");
}

bool JsonObject::next() {
  if (!scan_.next('}', seen_.empty())) return false;
  scan_.peek();
  const std::uint64_t offset = scan_.offset();
  key_ = scan_.string();
  if (!seen_.insert(key_).second) {
    refuse(scan_.file(), offset, "duplicate key \"" + printable(key_) + "\"",
           "each key once");
  }
  scan_.expect(':');
  return true;
}

bool JsonArray::next() {
  if (!scan_.next(']', count_ == 0)) return false;
  if (count_ > 0 && scan_.peek() == ']') scan_.fail("a JSON value");
  ++count_;
  return true;
}

}  // namespace assay
