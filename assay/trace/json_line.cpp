#include "assay/trace/json_line.h"

#include <charconv>
#include <limits>
#include <optional>
#include <utility>

namespace assay {
namespace {

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

}  // namespace

JsonLine::JsonLine(std::string_view text, std::string source)
    : json_(text, std::move(source)) {}

std::string JsonLine::first_key() {
  open_object();
  json_.expect(JsonToken::kKey, "a member");
  return std::string(json_.text());
}

bool JsonLine::next_key(std::string& key) {
  const JsonToken token = json_.next();
  if (token == JsonToken::kEndObject) return false;
  if (token != JsonToken::kKey) json_.refuse("expected a member");
  key.assign(json_.text());
  return true;
}

std::string JsonLine::text() {
  json_.expect(JsonToken::kString, "a text");
  return std::string(json_.text());
}

std::int64_t JsonLine::integer() {
  json_.expect(JsonToken::kNumber, "an integer");
  const auto value = whole_number(json_.text());
  if (!value) json_.refuse("expected an integer");
  return *value;
}

bool JsonLine::boolean() {
  const JsonToken token = json_.next();
  if (token != JsonToken::kTrue && token != JsonToken::kFalse)
    json_.refuse("expected true or false");
  return token == JsonToken::kTrue;
}

double JsonLine::number() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const JsonToken token = json_.next();
  if (token == JsonToken::kNumber) return json_.number();
  if (token == JsonToken::kString) {
    if (json_.text() == "inf") return kInf;
    if (json_.text() == "-inf") return -kInf;
    if (json_.text() == "nan") return std::numeric_limits<double>::quiet_NaN();
  }
  json_.refuse("expected a number");
}

std::vector<std::int64_t> JsonLine::integers() {
  std::vector<std::int64_t> values;
  json_.expect(JsonToken::kBeginArray, "a list");
  for (;;) {
    const JsonToken token = json_.next();
    if (token == JsonToken::kEndArray) return values;
    const auto value =
        token == JsonToken::kNumber ? whole_number(json_.text()) : std::nullopt;
    if (!value) json_.refuse("expected an integer");
    values.push_back(*value);
  }
}

std::vector<std::string> JsonLine::texts() {
  std::vector<std::string> values;
  json_.expect(JsonToken::kBeginArray, "a list");
  for (;;) {
    const JsonToken token = json_.next();
    if (token == JsonToken::kEndArray) return values;
    if (token != JsonToken::kString) json_.refuse("expected a text");
    values.emplace_back(json_.text());
  }
}

}  // namespace assay
