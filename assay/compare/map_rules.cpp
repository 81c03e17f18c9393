// Strict reader of --map files: the one place of this folder that knows YAML.
#include "assay/compare/map_rules.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>

#include "assay/base/error.h"
#include "assay/base/mapped_file.h"
#include "assay/base/text.h"

namespace assay {
namespace {

constexpr std::size_t kMaxFileBytes = 16u << 20;

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
}

bool is_direction(std::string_view part) {
  return part == "forward" || part == "backward" || part == "parameters_grad";
}

[[noreturn]] void fail(const std::string& path, int line,
                       const std::string& what) {
  throw Error(Code::kUsage, fmt::format("{}:{}: {}", path, line, what));
}

std::string_view kind_name(MapKind kind) {
  if (kind == MapKind::kLeaf) return "a record";
  if (kind == MapKind::kOp) return "an operator call";
  return "a module or part of a name";
}

class Parser {
 public:
  explicit Parser(const std::string& path) { result_.path = path; }

  MapRules parse(const std::string& text) {
    const YAML::Node root = load(text);
    if (!root.IsMap()) {
      fail(result_.path, line_of(root),
           "expected a mapping of 'golden name: target name'");
    }
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string key = scalar(entry.first, "a name");
      if (!seen.insert(key).second) {
        fail(result_.path, line_of(entry.first),
             fmt::format("'{}' is mapped twice", printable(key)));
      }
      add(key, entry.first, entry.second);
    }
    return std::move(result_);
  }

 private:
  static int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

  YAML::Node load(const std::string& text) const {
    try {
      return YAML::Load(text);
    } catch (const YAML::Exception& error) {
      fail(result_.path, error.mark.line + 1, error.msg);
    }
  }

  std::string scalar(const YAML::Node& node, std::string_view expected) const {
    if (!node.IsScalar()) {
      fail(result_.path, line_of(node),
           fmt::format("expected {}, found {}", expected,
                       node.IsNull()  ? "nothing (write '' for no text)"
                       : node.IsMap() ? "a mapping"
                                      : "a sequence"));
    }
    return node.Scalar();
  }

  void add(const std::string& key, const YAML::Node& key_node,
           const YAML::Node& value) {
    if (key.empty()) fail(result_.path, line_of(key_node), "the name is empty");
    if (value.IsMap()) return add_layer(key, value);
    const std::string target =
        scalar(value, "a name or {attribute: attribute}");
    const MapKind kind = classify_name(key);
    const MapKind other = classify_name(target);
    if (kind != other) {
      fail(result_.path, line_of(key_node),
           fmt::format("'{}' names {}, '{}' {}", printable(key),
                       kind_name(kind), printable(target), kind_name(other)));
    }
    result_.rules.push_back({kind, key, target, "", line_of(key_node)});
  }

  void add_layer(const std::string& layer, const YAML::Node& attributes) {
    std::set<std::string> seen;
    for (const auto& entry : attributes) {
      const std::string key = scalar(entry.first, "an attribute");
      const std::string target = scalar(entry.second, "an attribute");
      const int line = line_of(entry.first);
      if (!seen.insert(key).second) {
        fail(result_.path, line,
             fmt::format("'{}' is mapped twice in {}", printable(key),
                         printable(layer)));
      }
      if (key.empty() || target.empty()) {
        fail(result_.path, line, "an attribute name is empty");
      }
      result_.rules.push_back({MapKind::kLayer, key, target, layer, line});
    }
  }

  MapRules result_;
};

}  // namespace

MapKind classify_name(std::string_view name) {
  const auto parts = split(name, '.');
  std::size_t at = parts.size();
  while (at > 0 && !is_direction(parts[at - 1])) --at;
  if (at <= 1) return MapKind::kText;  // none, or nothing is named before it
  const std::size_t rest = parts.size() - at;
  if (rest == 0 || (rest == 1 && is_number(parts[at]))) return MapKind::kOp;
  return MapKind::kLeaf;
}

bool MapRules::has(MapKind kind) const {
  return std::any_of(rules.begin(), rules.end(),
                     [&](const MapRule& rule) { return rule.kind == kind; });
}

MapRules parse_map_rules(const std::string& text, const std::string& path) {
  return Parser(path).parse(text);
}

MapRules load_map_rules(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (file->size() > kMaxFileBytes) {
    throw Error(Code::kUsage,
                fmt::format("{}: {} bytes, a map file has at most {}", path,
                            file->size(), kMaxFileBytes));
  }
  const auto bytes = file->bytes();
  const std::string text(reinterpret_cast<const char*>(bytes.data()),
                         bytes.size());
  file->check_intact();
  return parse_map_rules(text, path);
}

}  // namespace assay
