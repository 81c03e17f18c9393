#include <charconv>
#include <limits>

#include "assay/base/text.h"
#include "assay/trace/json_reader.h"
#include "assay/trace/run_log_lines.h"

namespace assay {
namespace {

constexpr std::string_view kFormat = "assay-watch";
constexpr std::string_view kVersion = "1";

std::int64_t step_number(JsonReader& json) {
  std::int64_t value = -1;
  if (json.next() == JsonToken::kNumber) {
    const std::string_view text = json.text();
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end) value = -1;
  }
  if (value < 0) json.refuse("expected a step from 0 to 2^63 - 1");
  return value;
}

// Nothing for null. "nan", "inf" and "-inf" in quotes are what writers use
// that keep to JSON.
std::optional<double> figure_value(JsonReader& json) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const JsonToken token = json.next();
  if (token == JsonToken::kNumber) {
    const std::string_view text = json.text();
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    return json.number();
  }
  if (token == JsonToken::kNull) return std::nullopt;
  if (token == JsonToken::kString) {
    if (json.text() == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (json.text() == "inf") return kInf;
    if (json.text() == "-inf") return -kInf;
  }
  json.refuse("expected a number");
}

class StepLine {
 public:
  StepLine(std::string_view line, const std::string& where)
      : json_(line, where) {}

  bool parse(RunStep& step,
             std::vector<std::pair<std::string, std::string>>& facts) {
    json_.expect(JsonToken::kBeginObject, "an object");
    for (;;) {
      const JsonToken token = json_.next();
      if (token == JsonToken::kEndObject) break;
      if (token != JsonToken::kKey) json_.refuse("expected a member");
      member(step);
    }
    if (json_.next() != JsonToken::kEnd)
      json_.refuse("expected one object a line");
    if (!seen_step_) check_heading();
    if (!seen_step_) facts = std::move(facts_);
    return seen_step_;
  }

 private:
  void member(RunStep& step) {
    if (json_.text() == "step") {
      if (seen_step_) json_.refuse("\"step\" twice");
      seen_step_ = true;
      step.step = step_number(json_);
      return;
    }
    const std::optional<Figure> figure = figure_named(json_.text());
    if (!figure) return other();
    const std::uint32_t bit = 1u << static_cast<unsigned>(*figure);
    if (seen_ & bit)
      json_.refuse('"' + std::string(to_string(*figure)) + "\" twice");
    seen_ |= bit;
    if (const auto value = figure_value(json_))
      step.set(static_cast<std::size_t>(*figure), *value);
  }

  // Texts and numbers are facts, should this be a heading.
  void other() {
    if (seen_step_) return json_.skip(json_.next());
    std::string key(json_.text());
    const JsonToken token = json_.next();
    if (token == JsonToken::kString || token == JsonToken::kNumber)
      facts_.emplace_back(std::move(key), json_.text());
    else
      json_.skip(token);
  }

  void check_heading() const {
    std::string_view format, version;
    for (const auto& [key, value] : facts_) {
      if (key == "format") format = value;
      if (key == "version") version = value;
    }
    if (format != kFormat) json_.refuse("expected a member \"step\"");
    if (version != kVersion)
      json_.refuse("version '" + printable(version) +
                   "' of the log, expected " + std::string(kVersion));
  }

  JsonReader json_;
  std::vector<std::pair<std::string, std::string>> facts_;
  std::uint32_t seen_ = 0;
  bool seen_step_ = false;
};

}  // namespace

bool parse_json_step(std::string_view line, const std::string& where,
                     RunStep& step,
                     std::vector<std::pair<std::string, std::string>>& facts) {
  return StepLine(line, where).parse(step, facts);
}

}  // namespace assay
