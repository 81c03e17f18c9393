// A strict, bounded, pull-style JSON tokenizer for dumps of any size: the
// text stays where it is (a file mapping), nothing is built from it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

enum class JsonToken : std::uint8_t {
  kBeginObject,
  kEndObject,
  kBeginArray,
  kEndArray,
  kKey,
  kString,
  kNumber,  // also NaN, Infinity and -Infinity, as Python's json writes them
  kTrue,
  kFalse,
  kNull,
  kEnd,  // after the one top-level value
};

// Accepts RFC 8259 plus the three literals above. Written by hand because the
// size of a dump is in its numbers and white space: a general parser's
// iterative mode took 0.2 s for 64 MB where this one takes a third of it, and
// the callers need a number's own text (integers beyond 2^53). Depth is capped,
// so callers may recurse. Not thread-safe.
class JsonReader {
 public:
  static constexpr int kMaxDepth = 400;

  // `text` must outlive the reader; `source` names it in errors.
  JsonReader(std::string_view text, std::string source);

  // Throws Error: kUnreadable where the text ends too early, kRefused where
  // it is no JSON. Both name the source and the byte offset.
  JsonToken next();

  // The decoded string, the key, or the number as written. Valid until next().
  std::string_view text() const { return text_; }
  double number() const;  // of kNumber
  std::size_t offset() const { return token_begin_; }

  // A place to read again from: right after the token that next() gave last.
  struct Mark;
  Mark mark() const;
  void rewind(const Mark& mark);

  // Consumes the rest of the value that `first` began.
  void skip(JsonToken first);
  // next(), and Error{kRefused} unless it is `wanted`.
  void expect(JsonToken wanted, const char* what);
  // Error{kRefused} where `token` closes a container or the text.
  void expect_value(JsonToken token) const;
  [[noreturn]] void refuse(const std::string& found_and_expected) const;

 private:
  enum class State : std::uint8_t { kValue, kFirst, kAfter, kColon, kDone };

  void skip_space();
  JsonToken key_or_end();
  JsonToken value();
  JsonToken open(bool object);
  JsonToken close(bool object);
  JsonToken string(JsonToken kind);
  JsonToken number_token();
  void digits(const char* expected);
  JsonToken literal(std::string_view word, JsonToken kind);
  void after_value();
  void decode_string(const char* from);
  void escape();
  unsigned hex4();
  void append_code_point(unsigned code);
  char peek() const { return at_ < end_ ? *at_ : '\0'; }
  [[noreturn]] void unexpected(const char* expected) const;

  const char* begin_;
  const char* at_;
  const char* end_;
  std::string source_;
  std::string_view text_;
  std::string scratch_;
  std::size_t token_begin_ = 0;
  State state_ = State::kValue;
  int depth_ = 0;
  std::array<bool, kMaxDepth> is_object_{};
};

struct JsonReader::Mark {
  const char* at;
  int depth;
  State state;
};

// The value of a JSON number's text, NaN and infinities included; beyond the
// range of a double it is +-infinity or 0, as Python reads it.
double json_number(std::string_view text);

// Copies the value that `first` began as compact JSON: object members in
// their own order, numbers as written.
void append_json(JsonReader& reader, JsonToken first, std::string& out);

}  // namespace assay
