#include "assay/env/config_values.h"

#include <charconv>
#include <filesystem>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/env/script.h"

namespace assay::env {
namespace {

constexpr std::size_t kMostValues = 100'000;

// As JSON has numbers, so that the snapshot's text is one.
bool is_json_number(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - begin;
  };
  const bool zero = at < text.size() && text[at] == '0';
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

ConfigValues::ConfigValues(std::string source)
    : source_(std::move(source)),
      name_(std::filesystem::path(source_).filename().string()) {}

void ConfigValues::refuse(const std::string& what, int line) const {
  const std::string place = line > 0 ? ":" + std::to_string(line) : "";
  throw Error(Code::kRefused, printable(source_) + place + ": " + what);
}

void ConfigValues::add(std::string_view key, Value value, int line) {
  if (values_.size() >= kMostValues) refuse("more than 100,000 values", line);
  value.from = line > 0 ? name_ + ":" + std::to_string(line) : name_;
  // Keys that differ in case alone are two; one that stands twice is the last.
  std::string name = normalised_key(key);
  const std::string written(key);
  for (int i = 2;; ++i) {
    const auto [place, first] = written_.emplace(name, written);
    if (first || place->second == written) break;
    name = normalised_key(key) + "#" + std::to_string(i);
  }
  values_[name] = std::move(value);
}

std::string under(std::string_view parent, std::string_view key) {
  std::string made(parent);
  if (!parent.empty() && !key.empty()) made += '.';
  return made.append(key);
}

Value plain_value(std::string_view text) {
  text = trim(text);
  const bool quoted = text.size() >= 2 && text.front() == text.back() &&
                      (text.front() == '\'' || text.front() == '"');
  if (quoted)
    return {Kind::kText, std::string(text.substr(1, text.size() - 2)), ""};
  if (text == "True" || text == "true" || text == "TRUE")
    return {Kind::kBool, "true", ""};
  if (text == "False" || text == "false" || text == "FALSE")
    return {Kind::kBool, "false", ""};
  if (text == "None" || text == "null" || text == "~")
    return {Kind::kNull, "null", ""};
  const Kind kind = is_json_number(text) ? Kind::kNumber : Kind::kText;
  return {kind, std::string(text), ""};
}

}  // namespace assay::env
