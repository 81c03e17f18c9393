// Writes JSON into a buffer, one key after another, without a document tree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "assay/report/text_out.h"

namespace assay {

// An object or array that is open until the end of the scope. Keys are
// literals of ours and are not escaped.
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
  std::string& key(std::string_view name) {
    element().push_back('"');
    out_.append(name).append("\":");
    return out_;
  }

  void text(std::string_view name, std::string_view value) {
    append_json_string(key(name), value);
  }
  void text_unless_empty(std::string_view name, std::string_view value) {
    if (!value.empty()) text(name, value);
  }
  void number(std::string_view name, double value) {
    append_json_double(key(name), value);
  }
  void number(std::string_view name, const std::optional<double>& value) {
    if (value) number(name, *value);
  }
  void integer(std::string_view name, std::int64_t value) {
    append_int(key(name), value);
  }
  void integer_unless_zero(std::string_view name, std::int64_t value) {
    if (value != 0) integer(name, value);
  }
  void boolean(std::string_view name, bool value) {
    key(name).append(value ? "true" : "false");
  }

 private:
  std::string& out_;
  char close_;
  bool first_ = true;
};

}  // namespace assay
