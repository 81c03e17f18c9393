#include "assay/env/value_equal.h"

#include <charconv>
#include <optional>

#include "assay/base/text.h"

namespace assay::env {
namespace {

std::optional<bool> truth(const Value& value) {
  if (value.kind == Kind::kFlag) return true;
  if (value.kind == Kind::kBool) return value.text == "true";
  if (value.kind != Kind::kText) return std::nullopt;
  if (value.text == "true" || value.text == "True") return true;
  if (value.text == "false" || value.text == "False") return false;
  return std::nullopt;
}

// Sign and digits without leading zeros; "" where it is no integer.
std::string digits_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.find_first_not_of("0123456789") != text.npos)
    return "";
  const std::size_t first = text.find_first_not_of('0');
  if (first == text.npos) return "0";
  return (negative ? "-" : "") + std::string(text.substr(first));
}

std::optional<double> number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::string_view body = text.substr(text.starts_with('-') ? 1 : 0);
  // Not "nan", "inf": words.
  if (body.empty() || body.find_first_of("0123456789.") != 0)
    return std::nullopt;
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

bool same_word(std::string_view a, std::string_view b) {
  if (a == b) return true;
  const std::string x = digits_of(a), y = digits_of(b);
  if (!x.empty() && !y.empty()) return x == y;
  const auto first = number(a), second = number(b);
  return first && second && *first == *second;
}

bool same_list(std::string_view a, std::string_view b) {
  const auto x = split(a, ' '), y = split(b, ' ');
  if (x.size() != y.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!same_word(x[i], y[i])) return false;
  return true;
}

bool is_word(const Value& value) {
  return value.kind == Kind::kText || value.kind == Kind::kNumber;
}

}  // namespace

Sameness compare_values(Section section, const Value& a, const Value& b) {
  if (a.kind == Kind::kUnknown || b.kind == Kind::kUnknown)
    return Sameness::kUnknown;
  const auto verdict = [](bool same) {
    return same ? Sameness::kYes : Sameness::kNo;
  };
  const bool free =
      section == Section::kSwitches || section == Section::kHyperparameters;
  if (a.kind == b.kind && a.text == b.text) return Sameness::kYes;
  if (!free) return verdict(is_word(a) && is_word(b) && a.text == b.text);
  const auto first = truth(a), second = truth(b);
  if (first && second) return verdict(*first == *second);
  return verdict(is_word(a) && is_word(b) && same_list(a.text, b.text));
}

std::string shown(const Value& value) {
  if (value.kind == Kind::kText && value.text.empty()) return "\"\"";
  return value.text;
}

}  // namespace assay::env
