// Writes JSON into a buffer, one key after another, without a document tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/text_out.h"

namespace assay {

// A member's key as it is written, `,"name":`, made at compile time from a
// literal of ours that needs no escaping.
class JsonKey {
 public:
  template <std::size_t N>
  consteval JsonKey(const char (&name)[N])  // NOLINT: a literal is a key
      : length_(N + 3) {
    static_assert(N + 3 <= sizeof text_, "key too long");
    text_[0] = ',';
    text_[1] = '"';
    for (std::size_t i = 0; i + 1 < N; ++i) text_[i + 2] = name[i];
    text_[N + 1] = '"';
    text_[N + 2] = ':';
  }
  std::string_view with_comma() const { return {text_, length_}; }
  std::string_view without_comma() const { return {text_ + 1, length_ - 1}; }

 private:
  char text_[32] = {};
  std::size_t length_;
};

// An object or array that is open until the end of the scope.
class JsonScope {
 public:
  JsonScope(std::string& out, char open) : out_(out), close_(open + 2) {
    out_.push_back(open);  // '{' + 2 is '}', '[' + 2 is ']'
  }
  ~JsonScope() { out_.push_back(close_); }
  JsonScope(const JsonScope&) = delete;
  JsonScope& operator=(const JsonScope&) = delete;

  // Starts the next element of an array; returns the buffer.
  std::string& element() {
    if (!first_) out_.push_back(',');
    first_ = false;
    return out_;
  }
  // Starts the next member of an object; the value is appended to the result.
  std::string& key(const JsonKey& name) {
    out_.append(first_ ? name.without_comma() : name.with_comma());
    first_ = false;
    return out_;
  }
  // The same for a key that is made at run time.
  std::string& key_text(std::string_view name) {
    element().push_back('"');
    return out_.append(name).append("\":");
  }

  void text(const JsonKey& name, std::string_view value) {
    append_json_string(key(name), value);
  }
  // A word of ours, which needs no escaping.
  void word(const JsonKey& name, std::string_view value) {
    key(name).push_back('"');
    out_.append(value).push_back('"');
  }
  void text_unless_empty(const JsonKey& name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  void number(const JsonKey& name, double value) {
    append_json_double(key(name), value);
  }
  void number(const JsonKey& name, const std::optional<double>& value) {
    if (value) number(name, *value);
  }
  void integer(const JsonKey& name, std::int64_t value) {
    append_int(key(name), value);
  }
  void integer_unless_zero(const JsonKey& name, std::int64_t value) {
    if (value != 0) integer(name, value);
  }
  void boolean(const JsonKey& name, bool value) {
    key(name).append(value ? "true" : "false");
  }

 private:
  std::string& out_;
  char close_;
  bool first_ = true;
};

inline void append_json_list(std::string& out,
                             const std::vector<std::string>& texts) {
  JsonScope array(out, '[');
  for (const std::string& text : texts)
    append_json_string(array.element(), text);
}

}  // namespace assay
