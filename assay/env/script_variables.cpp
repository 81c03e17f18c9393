#include "assay/env/script_variables.h"

#include <algorithm>
#include <cctype>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/env/shell_arithmetic.h"

namespace assay::env {
namespace {

// A script of a few lines may ask for exponentially much: A="$B$B", ...
constexpr std::size_t kMostExpanded = std::size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\r\n";

bool is_name(std::string_view text) {
  return !text.empty() &&
         std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) || c == '_';
         });
}

// What is written again is what a reader of the snapshot understands.
std::string as_written(std::string_view inside) {
  std::string text = "$";
  if (is_name(inside)) return text.append(inside);
  return text.append("{").append(inside).append("}");
}

void split_into(const CommandWord& word, std::vector<CommandWord>& out) {
  const std::string_view text = word.text;
  for (std::size_t at = text.find_first_not_of(kBlanks); at < text.size();) {
    const std::size_t end =
        std::min(text.find_first_of(kBlanks, at), text.size());
    out.push_back(
        {std::string(text.substr(at, end - at)), word.unknown, word.line});
    at = text.find_first_not_of(kBlanks, end);
  }
}

std::string join(const std::vector<CommandWord>& items) {
  std::string text;
  for (const CommandWord& item : items)
    text += (text.empty() ? "" : " ") + item.text;
  return text;
}

bool any_unknown(const std::vector<CommandWord>& items) {
  return std::any_of(items.begin(), items.end(),
                     [](const CommandWord& item) { return item.unknown; });
}

}  // namespace

std::vector<CommandWord> Variable::words() const {
  if (array) return items;
  std::vector<CommandWord> all;
  for (const CommandWord& item : items) split_into(item, all);
  return all;
}

std::string Variable::text() const { return join(items); }
bool Variable::unknown() const { return any_unknown(items); }

Value Variable::value(const std::string& source) const {
  return {unknown() ? Kind::kUnknown : Kind::kText, text(), place(source)};
}

std::string Assignment::text() const { return join(items); }

void ShellVariables::grow(std::size_t bytes, int line) {
  expanded_ += bytes;
  if (expanded_ > kMostExpanded)
    throw Error(Code::kRefused, printable(source_) + ":" +
                                    std::to_string(line) +
                                    ": expands to more than 1 MiB");
}

std::optional<Assignment> ShellVariables::assignment(const ShellWord& word) {
  if (word.parts.empty() || word.parts[0].kind != ShellPart::Kind::kLiteral ||
      word.parts[0].quoted)
    return std::nullopt;
  const std::string& first = word.parts[0].text;
  const std::size_t sign = first.find('=');
  if (sign == std::string::npos) return std::nullopt;
  Assignment one;
  one.line = word.line;
  one.append = sign > 0 && first[sign - 1] == '+';
  one.name = first.substr(0, sign - (one.append ? 1 : 0));
  if (!is_name(one.name)) return std::nullopt;
  expanded_ = 0;
  if (word.is_array) {
    one.array = true;
    for (const ShellWord& element : word.elements)
      expand_word(element, true, one.items);
  } else {
    ShellWord value = word;
    value.parts[0].text = first.substr(sign + 1);
    CommandWord item;
    item.line = word.line;
    item.text = joined(value, item.unknown);
    one.items.push_back(std::move(item));
  }
  one.unknown = any_unknown(one.items);
  return one;
}

void ShellVariables::assign(const Assignment& one, bool in_branch) {
  const auto found = variables_.find(one.name);
  Variable made;
  made.line = one.line;
  made.array = one.array;
  if (found != variables_.end()) {
    made.used = found->second.used;
    if (one.append) {
      made.items = found->second.items;
      made.array = made.array || found->second.array;
    }
  }
  if (one.append && !made.array && !made.items.empty()) {
    made.items[0].text += one.items[0].text;
    made.items[0].unknown = made.items[0].unknown || one.items[0].unknown;
  } else {
    made.items.insert(made.items.end(), one.items.begin(), one.items.end());
  }
  std::size_t bytes = 0;
  for (const CommandWord& item : made.items) bytes += item.text.size() + 1;
  expanded_ = 0;
  grow(bytes, one.line);
  const bool same = found != variables_.end() &&
                    found->second.text() == made.text() &&
                    !found->second.unknown();
  if (in_branch && !same)
    for (CommandWord& item : made.items) item.unknown = true;
  variables_[one.name] = std::move(made);
}

void ShellVariables::make_unknown(const std::string& name) {
  if (!is_name(name)) return;
  Variable& variable = variables_[name];
  variable.used = true;
  if (variable.items.empty()) variable.items.push_back({"$" + name, true});
  for (CommandWord& item : variable.items) item.unknown = true;
}

const Variable* ShellVariables::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

// ${NAME:-default}, ${NAME-default}: known where the script assigned NAME
// something.
ShellVariables::Expansion ShellVariables::alternative(std::string_view inside,
                                                      std::string_view name) {
  const auto found = variables_.find(std::string(name));
  Expansion made;
  const std::string_view rest = inside.substr(name.size());
  const bool fallback = rest.starts_with(":-") || rest.starts_with('-') ||
                        rest.starts_with(":=") || rest.starts_with('=');
  if (found != variables_.end()) {
    found->second.used = true;
    if (fallback && !found->second.unknown() && !found->second.text().empty()) {
      made.items = {{found->second.text(), false}};
      return made;
    }
  }
  made.unknown = true;
  made.items = {{as_written(inside), true}};
  return made;
}

ShellVariables::Expansion ShellVariables::variable(std::string_view inside) {
  std::size_t length = 0;
  while (length < inside.size() &&
         (std::isalnum(static_cast<unsigned char>(inside[length])) != 0 ||
          inside[length] == '_'))
    ++length;
  const std::string_view name = inside.substr(0, length);
  const std::string_view rest = inside.substr(length);
  const bool all = rest == "[@]" || rest == "[*]";
  if (!rest.empty() && !all) return alternative(inside, name);
  Expansion made;
  const auto found = variables_.find(std::string(name));
  if (found == variables_.end()) {
    made.unknown = true;
    made.items = {{as_written(inside), true}};
    return made;
  }
  Variable& variable = found->second;
  variable.used = true;
  made.each = rest == "[@]";
  made.unknown = variable.unknown();
  if (variable.array && !all) {  // $NAME of an array is its first element
    if (!variable.items.empty()) made.items = {variable.items[0]};
  } else {
    made.items = variable.items;
  }
  return made;
}

ShellVariables::Expansion ShellVariables::arithmetic(
    const std::string& written) {
  Expansion made;
  const auto number = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables_.find(std::string(name));
    if (found == variables_.end()) return std::nullopt;
    found->second.used = true;
    if (found->second.unknown()) return std::nullopt;
    return found->second.text();
  };
  std::optional<std::int64_t> result;
  if (written.starts_with("$((") && written.ends_with("))"))
    result = shell_arithmetic(
        std::string_view(written).substr(3, written.size() - 5), number);
  made.unknown = !result;
  made.items = {{result ? std::to_string(*result) : written, !result}};
  return made;
}

ShellVariables::Expansion ShellVariables::part(const ShellPart& part) {
  switch (part.kind) {
    case ShellPart::Kind::kVariable:
      return variable(part.text);
    case ShellPart::Kind::kOther:
      return arithmetic(part.text);
    case ShellPart::Kind::kLiteral:
      break;
  }
  Expansion made;
  made.items = {{part.text, false}};
  return made;
}

// As an assignment takes it: not split.
std::string ShellVariables::joined(const ShellWord& word, bool& unknown) {
  std::string text;
  for (const ShellPart& each : word.parts) {
    const Expansion made = part(each);
    unknown = unknown || made.unknown || any_unknown(made.items);
    const std::string piece = join(made.items);
    grow(piece.size(), word.line);
    text += piece;
  }
  return text;
}

void ShellVariables::expand_word(const ShellWord& word, bool split,
                                 std::vector<CommandWord>& out) {
  CommandWord current;
  bool open = word.quoted &&
              std::all_of(word.parts.begin(), word.parts.end(),
                          [](const ShellPart& each) {
                            return each.kind == ShellPart::Kind::kLiteral;
                          });
  const auto close = [&] {
    if (current.line == 0) current.line = word.line;
    if (open) out.push_back(std::move(current));
    current = CommandWord();
    open = false;
  };
  for (const ShellPart& each : word.parts) {
    const Expansion made = part(each);
    const bool literal = each.kind == ShellPart::Kind::kLiteral;
    std::vector<CommandWord> pieces;
    if (literal || (each.quoted && !made.each) || !split) {
      const int line = made.items.empty() ? 0 : made.items[0].line;
      pieces.push_back({join(made.items), made.unknown, line});
    } else if (each.quoted) {
      pieces = made.items;
    } else {
      for (const CommandWord& item : made.items) split_into(item, pieces);
    }
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      grow(pieces[i].text.size() + 1, word.line);
      if (i > 0) close();
      if (current.text.empty())
        current.line = pieces[i].line > 0 ? pieces[i].line : word.line;
      current.text += pieces[i].text;
      current.unknown = current.unknown || pieces[i].unknown;
      open = true;
    }
  }
  close();
}

std::vector<CommandWord> ShellVariables::expand(
    const std::vector<ShellWord>& words) {
  expanded_ = 0;
  std::vector<CommandWord> all;
  for (const ShellWord& word : words) {
    if (word.is_array) continue;
    expand_word(word, true, all);
  }
  return all;
}

}  // namespace assay::env
