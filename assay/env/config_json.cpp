// JSON configurations, flat.
#include "assay/env/config_values.h"
#include "assay/trace/json_reader.h"

namespace assay::env {
namespace {

constexpr int kMostDepth = 64;

class JsonConfig {
 public:
  JsonConfig(std::string_view text, ConfigValues& values)
      : json_(text, values.source()), values_(values) {}

  void read() {
    value(json_.next(), "", 0);
    json_.expect(JsonToken::kEnd, "the end of the file");
  }

 private:
  static bool is_container(JsonToken token) {
    return token == JsonToken::kBeginObject || token == JsonToken::kBeginArray;
  }

  Value scalar(JsonToken token) {
    switch (token) {
      case JsonToken::kString:
        return {Kind::kText, std::string(json_.text()), ""};
      case JsonToken::kNumber:
        return plain_value(json_.text());
      case JsonToken::kTrue:
        return {Kind::kBool, "true", ""};
      case JsonToken::kFalse:
        return {Kind::kBool, "false", ""};
      default:
        json_.expect_value(token);
        return {Kind::kNull, "null", ""};
    }
  }

  void value(JsonToken token, const std::string& key, int depth) {
    if (depth > kMostDepth) json_.refuse("more than 64 levels");
    if (token == JsonToken::kBeginArray) return array(key, depth);
    if (token != JsonToken::kBeginObject)
      return values_.add(key.empty() ? "value" : key, scalar(token));
    for (token = json_.next(); token != JsonToken::kEndObject;
         token = json_.next()) {
      const std::string name = under(key, json_.text());
      value(json_.next(), name, depth + 1);
    }
  }

  // Scalars together, containers under their index.
  void array(const std::string& key, int depth) {
    std::string joined;
    std::size_t index = 0;
    bool scalars = false;
    for (JsonToken token = json_.next(); token != JsonToken::kEndArray;
         token = json_.next(), ++index) {
      if (is_container(token)) {
        value(token, under(key, std::to_string(index)), depth + 1);
        continue;
      }
      joined += (scalars ? " " : "") + scalar(token).text;
      scalars = true;
    }
    if (scalars || index == 0)
      values_.add(key, {Kind::kText, index == 0 ? "[]" : joined, ""});
  }

  JsonReader json_;
  ConfigValues& values_;
};

}  // namespace

void read_json_config(std::string_view text, ConfigValues& values) {
  JsonConfig(text, values).read();
}

}  // namespace assay::env
