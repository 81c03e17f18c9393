// A strict JSON pull scanner for untrusted headers: no tree is built, nesting
// is capped, duplicate keys are errors and integers never pass through double.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>

namespace assay {

// A JSON string as it stands in the text.
struct JsonText {
  std::string_view raw;      // between the quotes, escapes untouched
  bool escaped = false;      // raw holds a backslash: use json_decode()
  std::uint64_t offset = 0;  // of the first raw byte in the file
};

// The scanner does not own `text` or `file`. Offsets in errors are `base` plus
// the position in `text`. Every member function skips leading white space and
// throws Error{kRefused} where the text is no JSON or not of the asked type.
// Python's NaN, Infinity and -Infinity pass as numbers that are skipped.
// Not thread-safe.
class JsonScanner {
 public:
  static constexpr int kMaxDepth = 64;

  JsonScanner(std::string_view text, std::string_view file,
              std::uint64_t base = 0)
      : text_(text), file_(file), base_(base) {}

  char peek();  // next character that is no white space, '\0' at the end
  JsonText string_token();
  std::string string();
  std::int64_t non_negative_integer();  // digits only: no sign, point, exponent
  void skip_value();
  void finish();  // only white space may follow

  std::uint64_t offset() const { return base_ + position_; }
  std::string_view file() const { return file_; }
  [[noreturn]] void fail(std::string_view expected) const;

 private:
  friend class JsonObject;
  friend class JsonArray;

  void open(char bracket);
  bool next(char closing, bool first);  // false once `closing` was consumed
  void expect(char character);
  void skip_number();
  void skip_literal(std::string_view word);
  std::string_view token() const;  // what stands here, for an error

  std::string_view text_;
  std::string_view file_;
  std::uint64_t base_;
  std::size_t position_ = 0;
  int depth_ = 0;
};

// while (object.next()) { use object.key(); consume exactly one value; }
class JsonObject {
 public:
  explicit JsonObject(JsonScanner& scan) : scan_(scan) { scan_.open('{'); }
  bool next();  // throws on a key seen before
  const std::string& key() const { return key_; }

 private:
  JsonScanner& scan_;
  std::string key_;
  std::unordered_set<std::string> seen_;
};

// while (array.next()) { consume exactly one value; }
class JsonArray {
 public:
  explicit JsonArray(JsonScanner& scan) : scan_(scan) { scan_.open('['); }
  bool next();
  std::size_t index() const { return count_ - 1; }  // of the current item

 private:
  JsonScanner& scan_;
  std::size_t count_ = 0;
};

// The UTF-8 text a JSON string stands for. Throws Error{kRefused} naming
// `file` on an unknown escape, a lone surrogate or invalid UTF-8.
std::string json_decode(const JsonText& text, std::string_view file);

}  // namespace assay
