// One JSON object a line: its members, by type, on top of JsonReader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "assay/trace/json_reader.h"

namespace assay {

// Every value is read right after its key; one of another type is
// Error{kRefused} naming source and byte. Not thread-safe.
class JsonLine {
 public:
  // `text` must outlive the object; `source` names it in errors.
  JsonLine(std::string_view text, std::string source);

  // The key of the first member; the object must have one.
  std::string first_key();
  // Calls member(key) for every member up to the end of the object; it reads,
  // or skips, the value.
  template <typename F>
  void members(F&& member) {
    std::string key;
    while (next_key(key)) member(std::string_view(key));
  }
  // Opens an object that is the value of a member, for members().
  void open_object() { json_.expect(JsonToken::kBeginObject, "an object"); }
  void skip() { json_.skip(json_.next()); }

  std::string text();
  std::int64_t integer();
  bool boolean();
  // A number, or "inf", "-inf", "nan" in quotes.
  double number();
  std::vector<std::int64_t> integers();
  std::vector<std::string> texts();
  [[noreturn]] void refuse(const std::string& what) const {
    json_.refuse(what);
  }

 private:
  bool next_key(std::string& key);
  JsonReader json_;
};

}  // namespace assay
