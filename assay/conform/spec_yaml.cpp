#include "assay/conform/spec_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

#include "assay/base/checked.h"
#include "assay/base/text.h"

namespace assay::conform {
namespace {

// One level of lists inside a list of values is enough: [[1, 2], [3, 4]].
constexpr int kMaxListDepth = 3;

Value list_or_scalar(const ConfigNode& node, int depth) {
  if (node.is_scalar()) return scalar_value(node);
  if (!node.is_list() || depth >= kMaxListDepth)
    node.fail("expected a value or a list of values");
  List list;
  for (const ConfigNode& item : node.items())
    list.push_back(list_or_scalar(item, depth + 1));
  return list;
}

// {edges: [8, 16], step: 1}: one step below, on and one above each.
void append_edges(const ConfigNode& node, std::vector<Value>& values) {
  node.allow_only({"edges", "step"});
  const ConfigNode* given = node.find("step");
  const std::int64_t step = given ? integer_of(*given, 1) : 1;
  for (const ConfigNode& edge : node.at("edges").items()) {
    const std::int64_t centre = integer_of(edge, 0);
    for (const std::int64_t offset : {-step, std::int64_t{0}, step}) {
      const std::optional<std::int64_t> value = checked_add(centre, offset);
      if (!value) edge.fail("an integer beyond 64 bits");
      if (*value < 0) continue;
      if (!std::count(values.begin(), values.end(), Value(*value)))
        values.emplace_back(*value);
    }
  }
}

std::vector<Value> parameter_values(const ConfigNode& node) {
  std::vector<Value> values;
  for (const ConfigNode& item : node.items()) {
    if (item.is_map()) {
      append_edges(item, values);
      continue;
    }
    Value value = value_of(item);
    if (std::count(values.begin(), values.end(), value))
      item.fail(
          fmt::format("value {} is given twice", printable(to_json(value))));
    values.push_back(std::move(value));
  }
  if (values.empty()) node.fail("expected at least one value");
  return values;
}

}  // namespace

bool is_identifier(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])))
    return false;
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_';
  });
}

bool is_dotted_name(const std::string& text) {
  for (const std::string_view part : split(text, '.')) {
    const bool number =
        !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (!number && !is_identifier(std::string(part))) return false;
  }
  return true;
}

void refuse_gap(const ConfigNode& node, const std::string& text) {
  if (text == "?") node.fail("'?' is a gap of a draft: fill it in");
}

Value scalar_value(const ConfigNode& node) {
  const std::string text = node.text();
  refuse_gap(node, text);
  if (node.is_quoted()) return text;
  if (text == "true" || text == "false") return text == "true";
  const char* begin = text.data() + (text[0] == '+');
  const char* end = text.data() + text.size();
  const char first = text[text[0] == '+' || text[0] == '-'];
  if (!std::isdigit(static_cast<unsigned char>(first)) && first != '.')
    return text;
  std::int64_t whole = 0;
  const auto as_integer = std::from_chars(begin, end, whole);
  if (as_integer.ptr == end) {
    if (as_integer.ec != std::errc()) node.fail("an integer beyond 64 bits");
    return whole;
  }
  double number = 0;
  const auto as_double = std::from_chars(begin, end, number);
  if (as_double.ptr == end && as_double.ec == std::errc()) return number;
  return text;
}

Value value_of(const ConfigNode& node) { return list_or_scalar(node, 0); }

std::int64_t integer_of(const ConfigNode& node, std::int64_t least) {
  const Value value = scalar_value(node);
  if (!value.is_integer() || value.integer() < least)
    node.fail(fmt::format("found '{}', expected an integer >= {}",
                          printable(node.text()), least));
  return value.integer();
}

std::vector<std::string> texts(const ConfigNode& node) {
  std::vector<std::string> all;
  for (const ConfigNode& item : node.items()) {
    all.push_back(item.text());
    if (std::count(all.begin(), all.end(), all.back()) > 1)
      item.fail(fmt::format("'{}' is given twice", printable(all.back())));
  }
  return all;
}

Parameter parameter(const std::string& name, const ConfigNode& node) {
  Parameter made;
  made.name = name;
  if (node.is_list()) {
    made.small = made.real = parameter_values(node);
    return made;
  }
  node.allow_only({"small", "real"});
  made.small = parameter_values(node.at("small"));
  made.real = parameter_values(node.at("real"));
  return made;
}

}  // namespace assay::conform
