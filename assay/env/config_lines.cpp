// Configurations of lines: INI, Megatron's list of arguments, and Python's
// argparse.Namespace.
#include <algorithm>
#include <cctype>

#include "assay/base/text.h"
#include "assay/env/config_values.h"

namespace assay::env {
namespace {

bool is_name(std::string_view text) {
  return !text.empty() &&
         std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '_' || c == '-' || c == '.';
         });
}

// "[0.9, 0.95]", "(1, 2)" as "0.9 0.95"; other text as it is.
Value python_value(std::string_view text) {
  text = trim(text);
  const bool list =
      text.size() >= 2 && ((text.front() == '[' && text.back() == ']') ||
                           (text.front() == '(' && text.back() == ')'));
  if (!list || text.size() == 2) return plain_value(text);
  const std::string_view inside = text.substr(1, text.size() - 2);
  if (inside.find_first_of("[](){}") != inside.npos)
    return {Kind::kText, std::string(text), ""};
  std::string joined;
  for (const std::string_view item : split(inside, ',')) {
    if (trim(item).empty()) continue;
    joined += (joined.empty() ? "" : " ") + plain_value(item).text;
  }
  return {Kind::kText, joined, ""};
}

// Where a value that begins at `from` ends: at ',' or ')' outside of quotes and
// brackets.
std::size_t end_of_value(std::string_view text, std::size_t from) {
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\'' || c == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != c)
        end += text[end] == '\\' ? 2 : 1;
      i = end;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}' || (c == ')' && depth > 0)) {
      --depth;
    } else if (depth == 0 && (c == ',' || c == ')')) {
      return i;
    }
  }
  return text.npos;
}

}  // namespace

bool read_namespace(std::string_view text, ConfigValues& values) {
  constexpr std::string_view kWord = "Namespace(";
  std::size_t at = text.find(kWord);
  if (at == text.npos) return false;
  at += kWord.size();
  while (at < text.size() && text[at] != ')') {
    const std::size_t sign = text.find('=', at);
    if (sign == text.npos) values.refuse("Namespace(: expected name=value");
    const std::string_view name = trim(text.substr(at, sign - at));
    if (!is_name(name))
      values.refuse("Namespace(: found '" + printable(name.substr(0, 40)) +
                    "', expected a name");
    const std::size_t end = end_of_value(text, sign + 1);
    if (end == text.npos) values.refuse("Namespace( that is not closed");
    values.add(name, python_value(text.substr(sign + 1, end - sign - 1)));
    at = end + (text[end] == ',' ? 1 : 0);
  }
  if (at >= text.size()) values.refuse("Namespace( that is not closed");
  return true;
}

bool read_argument_lines(std::string_view text, ConfigValues& values) {
  constexpr std::string_view kDots = " ...";
  bool any = false;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    // A launcher writes the rank in front: "[0]:  lr ......... 0.1".
    if (line.starts_with('[') && line.find("]:") != line.npos)
      line = trim(line.substr(line.find("]:") + 2));
    const std::size_t dots = line.find(kDots);
    if (dots == line.npos || !is_name(line.substr(0, dots))) continue;
    const std::size_t end = line.find_first_not_of('.', dots + 1);
    if (end == line.npos || line[end] != ' ') continue;
    values.add(line.substr(0, dots), python_value(line.substr(end)), number);
    any = true;
  }
  return any;
}

void read_ini_config(std::string_view text, ConfigValues& values) {
  std::string section;
  int number = 0;
  bool any = false;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    line = trim(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']' &&
        line.find('=') == line.npos) {
      section = trim(line.substr(1, line.size() - 2));
      continue;
    }
    const std::size_t sign = line.find_first_of("=:");
    if (sign == line.npos || !is_name(trim(line.substr(0, sign))))
      values.refuse(
          "found '" + printable(line.substr(0, 40)) + "', expected key = value",
          number);
    std::string_view value = trim(line.substr(sign + 1));
    const bool quoted = value.starts_with('"') || value.starts_with('\'');
    const std::size_t comment = value.find(" #");
    if (!quoted && comment != value.npos)
      value = trim(value.substr(0, comment));
    values.add(under(section, trim(line.substr(0, sign))), python_value(value),
               number);
    any = true;
  }
  if (!any) values.refuse("no setting in it, expected key = value");
}

}  // namespace assay::env
