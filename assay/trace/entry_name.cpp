// What the names of dumped operators say.
#include "assay/trace/entry_name.h"

#include <charconv>

namespace assay {
namespace {

// Cuts the part after the last `separator` off `rest`.
std::string_view take_last(std::string_view& rest, char separator = '.') {
  const auto at = rest.rfind(separator);
  std::string_view last;
  if (at == rest.npos) {
    last = rest;
    rest = {};
  } else {
    last = rest.substr(at + 1);
    rest = rest.substr(0, at);
  }
  return last;
}

std::optional<std::int64_t> parse_index(std::string_view text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || text[0] == '-' || result.ptr != end ||
      result.ec != std::errc()) {
    return std::nullopt;
  }
  return value;
}

Direction parse_direction(std::string_view text) {
  if (text == "forward") return Direction::kForward;
  if (text == "backward") return Direction::kBackward;
  if (text == "parameters_grad") return Direction::kParametersGrad;
  return Direction::kNone;
}

void split_prefix(std::string_view rest, EntryName& entry,
                  char separator = '.') {
  const auto at = rest.find(separator);
  if (at == rest.npos) {
    entry.api = rest;
    return;
  }
  entry.prefix = rest.substr(0, at);
  entry.api = rest.substr(at + 1);
}

// Fills `entry` from a name whose parts are joined by `separator`.
bool parse_parts(std::string_view name, char separator, EntryName& entry) {
  std::string_view rest = name;
  const std::string_view last = take_last(rest, separator);
  std::string_view before_rest = rest;
  const std::string_view before = take_last(before_rest, separator);
  if (const auto index = parse_index(last)) {
    entry.direction = parse_direction(before);
    if (entry.direction == Direction::kNone) return false;
    entry.call_index = *index;
    entry.indexed = true;
    split_prefix(before_rest, entry, separator);
    return true;
  }
  entry.direction = parse_direction(last);
  if (entry.direction == Direction::kNone && last != "debug") return false;
  if (const auto index = parse_index(before)) {
    entry.call_index = *index;
    entry.indexed = true;
    rest = before_rest;
  }
  if (!entry.indexed && entry.direction != Direction::kParametersGrad &&
      last != "debug") {
    return false;
  }
  if (last == "debug") {
    entry.api = rest;
  } else {
    split_prefix(rest, entry, separator);
  }
  return true;
}

bool is_module(const EntryName& entry) {
  return entry.prefix == "Module" || entry.prefix == "Cell" ||
         entry.direction == Direction::kParametersGrad;
}

// Where "input", "output" or "stack_info" begins, the rightmost one that ends
// the name or is followed by '.' or '_'.
std::size_t find_leaf(std::string_view name) {
  std::size_t best = name.npos;
  for (const std::string_view word :
       {std::string_view("input"), std::string_view("output"),
        std::string_view("stack_info")}) {
    const auto at = name.rfind(word);
    if (at == name.npos || at == 0) continue;
    const std::string_view tail = name.substr(at + word.size());
    const char ahead = name[at - 1];
    if ((ahead != '.' && ahead != '_') ||
        (!tail.empty() && tail[0] != '.' && tail[0] != '_')) {
      continue;
    }
    if (best == name.npos || at > best) best = at;
  }
  return best;
}

std::string dotted_leaf(std::string_view leaf) {
  std::string text(leaf);
  for (const std::string_view word :
       {std::string_view("input_"), std::string_view("output_")}) {
    if (text.rfind(word, 0) == 0) text[word.size() - 1] = '.';
  }
  return text;
}

}  // namespace

EntryName parse_entry_name(std::string_view name) {
  EntryName entry;
  if (!parse_parts(name, '.', entry)) {
    entry = EntryName{};
    entry.api = name;
  }
  return entry;
}

std::string_view direction_name(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kBackward:
      return "backward";
    case Direction::kParametersGrad:
      return "parameters_grad";
    case Direction::kNone:
      break;
  }
  return "debug";
}

std::string with_call_index(const EntryName& entry, std::int64_t index) {
  std::string text(entry.prefix);
  if (!text.empty()) text += '.';
  text += entry.api;
  const bool module = is_module(entry);
  if (module) text.append(1, '.').append(direction_name(entry.direction));
  text.append(1, '.').append(std::to_string(index));
  if (!module) text.append(1, '.').append(direction_name(entry.direction));
  return text;
}

std::optional<PtdbgName> parse_ptdbg_name(std::string_view name) {
  const std::size_t at = find_leaf(name);
  if (at == name.npos) return std::nullopt;
  const char separator = name[at - 1];
  const std::string_view head = name.substr(0, at - 1);
  EntryName entry;
  if (!parse_parts(head, separator, entry) || !entry.indexed) {
    return std::nullopt;
  }
  PtdbgName result{with_call_index(entry, entry.call_index),
                   dotted_leaf(name.substr(at))};
  // A module's class was joined to its path by the same separator.
  if (separator == '_' && is_module(entry)) {
    std::string_view path = entry.api;
    const std::string_view klass = take_last(path, '_');
    if (!path.empty()) {
      const std::string api = std::string(path) + "." + std::string(klass);
      entry.api = api;
      result.entry = with_call_index(entry, entry.call_index);
    }
  }
  return result;
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

}  // namespace assay
