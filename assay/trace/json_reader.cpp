// A strict, bounded, pull-style JSON tokenizer.
#include "assay/trace/json_reader.h"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {
namespace {

// The classes of bytes the scanner runs over. `c` is one unsigned byte or a
// block of them, hence no && and ||.
struct IsSpace {
  auto operator()(auto c) const {
    return (c == ' ') | (c == '\n') | (c == '\r') | (c == '\t');
  }
};
// What a string may hold as it is: ASCII but controls, '"' and '\'.
struct IsPlain {
  auto operator()(auto c) const {
    return (c >= 0x20) & (c < 0x80) & (c != '"') & (c != '\\');
  }
};
struct IsPlainOrHigh {
  auto operator()(auto c) const { return IsPlain()(c) | (c >= 0x80); }
};
struct IsDigit {
  auto operator()(auto c) const { return (c >= '0') & (c <= '9'); }
};

// In memory order.
int first_nonzero_byte(std::uint64_t word) {
  return (std::endian::native == std::endian::little ? std::countr_zero(word)
                                                     : std::countl_zero(word)) /
         8;
}

using Block = unsigned char __attribute__((vector_size(16)));

// The first byte in [at, end) that is not `inside`, `end` when all are. A
// comparison of blocks makes each lane 255 or 0.
template <typename Inside>
const char* skip_run(const char* at, const char* end, Inside inside) {
  for (; end - at >= 16; at += 16) {
    Block bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    const auto outside = ~inside(bytes);
    std::uint64_t halves[2];
    std::memcpy(halves, &outside, sizeof halves);
    if (halves[0] != 0) return at + first_nonzero_byte(halves[0]);
    if (halves[1] != 0) return at + 8 + first_nonzero_byte(halves[1]);
  }
  while (at < end && inside(static_cast<unsigned char>(*at))) ++at;
  return at;
}

}  // namespace

JsonReader::JsonReader(std::string_view text, std::string source)
    : begin_(text.data()),
      at_(text.data()),
      end_(text.data() + text.size()),
      source_(std::move(source)) {}

void JsonReader::refuse(const std::string& what) const {
  throw Error(Code::kRefused, source_ + ": offset " +
                                  std::to_string(token_begin_) + ": " + what);
}

void JsonReader::unexpected(const char* expected) const {
  const auto at = std::to_string(at_ - begin_);
  if (at_ >= end_) {
    throw Error(Code::kUnreadable, source_ + ": the file ends at offset " + at +
                                       ", expected " + expected);
  }
  throw Error(Code::kRefused, source_ + ": offset " + at + ": found '" +
                                  printable(std::string_view(at_, 1)) +
                                  "', expected " + expected);
}

inline void JsonReader::skip_space() {
  if (at_<end_&& static_cast<unsigned char>(*at_)> ' ') return;
  at_ = skip_run(at_, end_, IsSpace());
}

JsonToken JsonReader::next() {
  skip_space();
  token_begin_ = static_cast<std::size_t>(at_ - begin_);
  if (state_ == State::kDone) {
    if (at_ < end_) unexpected("the end of the file");
    return JsonToken::kEnd;
  }
  if (state_ == State::kValue || state_ == State::kColon) return value();
  const bool object = is_object_[static_cast<std::size_t>(depth_ - 1)];
  if (peek() == (object ? '}' : ']')) return close(object);
  if (state_ == State::kAfter) {
    if (peek() != ',') unexpected(object ? "',' or '}'" : "',' or ']'");
    ++at_;
    skip_space();
    token_begin_ = static_cast<std::size_t>(at_ - begin_);
  }
  return object ? key_or_end() : value();
}

JsonToken JsonReader::key_or_end() {
  if (peek() != '"') unexpected("a member's name");
  string(JsonToken::kKey);
  skip_space();
  if (peek() != ':') unexpected("':'");
  ++at_;
  state_ = State::kColon;
  return JsonToken::kKey;
}

inline void JsonReader::after_value() {
  state_ = depth_ == 0 ? State::kDone : State::kAfter;
}

JsonToken JsonReader::value() {
  switch (peek()) {
    case '{':
      return open(true);
    case '[':
      return open(false);
    case '"':
      string(JsonToken::kString);
      after_value();
      return JsonToken::kString;
    case 't':
      return literal("true", JsonToken::kTrue);
    case 'f':
      return literal("false", JsonToken::kFalse);
    case 'n':
      return literal("null", JsonToken::kNull);
    case 'N':
      return literal("NaN", JsonToken::kNumber);
    case 'I':
      return literal("Infinity", JsonToken::kNumber);
    default:
      return number_token();
  }
}

JsonToken JsonReader::open(bool object) {
  if (depth_ == kMaxDepth) unexpected("nesting no deeper than 400");
  is_object_[static_cast<std::size_t>(depth_++)] = object;
  ++at_;
  state_ = State::kFirst;
  return object ? JsonToken::kBeginObject : JsonToken::kBeginArray;
}

JsonToken JsonReader::close(bool object) {
  ++at_;
  --depth_;
  after_value();
  return object ? JsonToken::kEndObject : JsonToken::kEndArray;
}

JsonToken JsonReader::literal(std::string_view word, JsonToken kind) {
  const char* from = at_;
  for (const char c : word) {
    if (peek() != c) unexpected("a value");
    ++at_;
  }
  text_ = std::string_view(from, word.size());
  after_value();
  return kind;
}

// At least one digit, which at_ then is behind.
void JsonReader::digits(const char* expected) {
  const char* at = skip_run(at_, end_, IsDigit());
  if (at == at_) unexpected(expected);
  at_ = at;
}

JsonToken JsonReader::number_token() {
  const char* from = at_;
  if (peek() == '-') ++at_;
  if (peek() == 'I') {
    literal("Infinity", JsonToken::kNumber);
    text_ = std::string_view(from, static_cast<std::size_t>(at_ - from));
    return JsonToken::kNumber;
  }
  if (peek() == '0') {
    ++at_;
  } else {
    digits("a value");
  }
  if (peek() == '.') {
    ++at_;
    digits("a digit");
  }
  if (peek() == 'e' || peek() == 'E') {
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    digits("a digit");
  }
  text_ = std::string_view(from, static_cast<std::size_t>(at_ - from));
  after_value();
  return JsonToken::kNumber;
}

JsonToken JsonReader::string(JsonToken kind) {
  const char* from = at_ + 1;
  const char* at = skip_run(from, end_, IsPlain());
  at_ = at;
  if (peek() == '"') {
    text_ = std::string_view(from, static_cast<std::size_t>(at - from));
    ++at_;
  } else {
    decode_string(from);
  }
  return kind;
}

// The way for strings with escapes or bytes beyond ASCII.
void JsonReader::decode_string(const char* from) {
  scratch_.assign(from, at_);
  for (;;) {
    const char* run = at_;
    at_ = skip_run(at_, end_, IsPlainOrHigh());
    scratch_.append(run, at_);
    if (peek() == '"') break;
    if (peek() != '\\') unexpected("the rest of a string");
    ++at_;
    escape();
  }
  ++at_;
  if (!is_valid_utf8(scratch_)) refuse("a string is not valid UTF-8");
  text_ = scratch_;
}

void JsonReader::escape() {
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kMeans = "\"\\/\b\f\n\r\t";
  if (peek() == 'u') {
    ++at_;
    append_code_point(hex4());
    return;
  }
  const auto which = at_ < end_ ? kNames.find(*at_) : kNames.npos;
  if (which == kNames.npos) unexpected("an escape");
  scratch_ += kMeans[which];
  ++at_;
}

unsigned JsonReader::hex4() {
  unsigned code = 0;
  if (end_ - at_ < 4) at_ = end_;
  if (at_ == end_) unexpected("four hexadecimal digits");
  const auto result = std::from_chars(at_, at_ + 4, code, 16);
  if (result.ptr != at_ + 4) unexpected("four hexadecimal digits");
  at_ += 4;
  return code;
}

// Half a surrogate pair (Python writes them for undecodable file names) has no
// UTF-8: it stays the six characters of its escape.
void JsonReader::append_code_point(unsigned code) {
  const bool high = code >= 0xD800 && code < 0xDC00;
  if (high && end_ - at_ >= 6 && at_[0] == '\\' && at_[1] == 'u') {
    const char* mark = at_;
    at_ += 2;
    const unsigned low = hex4();
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else {
      at_ = mark;
    }
  }
  if (code < 0x80) {
    scratch_ += static_cast<char>(code);
  } else if (code < 0x800) {
    scratch_ += static_cast<char>(0xC0 | code >> 6);
    scratch_ += static_cast<char>(0x80 | (code & 63));
  } else if (code >= 0xD800 && code < 0xE000) {
    static constexpr char kHex[] = "0123456789abcdef";
    scratch_ += "\\u";
    for (const int shift : {12, 8, 4, 0}) scratch_ += kHex[code >> shift & 15];
  } else if (code < 0x10000) {
    scratch_ += static_cast<char>(0xE0 | code >> 12);
    scratch_ += static_cast<char>(0x80 | (code >> 6 & 63));
    scratch_ += static_cast<char>(0x80 | (code & 63));
  } else {
    scratch_ += static_cast<char>(0xF0 | code >> 18);
    scratch_ += static_cast<char>(0x80 | (code >> 12 & 63));
    scratch_ += static_cast<char>(0x80 | (code >> 6 & 63));
    scratch_ += static_cast<char>(0x80 | (code & 63));
  }
}

// The kinds of the open containers below `depth` cannot have changed since.
JsonReader::Mark JsonReader::mark() const { return {at_, depth_, state_}; }

void JsonReader::rewind(const Mark& mark) {
  at_ = mark.at;
  depth_ = mark.depth;
  state_ = mark.state;
}

double JsonReader::number() const { return json_number(text_); }

void JsonReader::expect_value(JsonToken token) const {
  if (token == JsonToken::kEndObject || token == JsonToken::kEndArray ||
      token == JsonToken::kEnd) {
    refuse("expected a value");
  }
}

void JsonReader::skip(JsonToken first) {
  expect_value(first);
  int depth = 0;
  for (JsonToken token = first;; token = next()) {
    const bool opens =
        token == JsonToken::kBeginObject || token == JsonToken::kBeginArray;
    const bool closes =
        token == JsonToken::kEndObject || token == JsonToken::kEndArray;
    depth += opens - closes;
    if (depth < 0) refuse("expected a value before the closing bracket");
    if (depth == 0 && token != JsonToken::kKey) return;
  }
}

void JsonReader::expect(JsonToken wanted, const char* what) {
  if (next() != wanted) refuse(std::string("expected ") + what);
}

double json_number(std::string_view text) {
  double value = 0;
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc::result_out_of_range) {
    value = std::strtod(std::string(text).c_str(), nullptr);
  }
  return value;
}

namespace {

void append_quoted(std::string_view text, std::string& out) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

void append_scalar(const JsonReader& reader, JsonToken token,
                   std::string& out) {
  if (token == JsonToken::kString || token == JsonToken::kKey) {
    append_quoted(reader.text(), out);
  } else {
    out += reader.text();
  }
}

}  // namespace

void append_json(JsonReader& reader, JsonToken first, std::string& out) {
  reader.expect_value(first);
  int depth = 0;
  bool comma = false;
  for (JsonToken token = first;; token = reader.next()) {
    switch (token) {
      case JsonToken::kBeginObject:
      case JsonToken::kBeginArray:
        if (comma) out += ',';
        out += token == JsonToken::kBeginObject ? '{' : '[';
        ++depth;
        comma = false;
        break;
      case JsonToken::kEndObject:
      case JsonToken::kEndArray:
        out += token == JsonToken::kEndObject ? '}' : ']';
        --depth;
        comma = true;
        break;
      default:
        if (comma) out += ',';
        append_scalar(reader, token, out);
        comma = token != JsonToken::kKey;
        if (token == JsonToken::kKey) out += ':';
    }
    if (depth == 0) return;
  }
}

}  // namespace assay
