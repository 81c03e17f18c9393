// The only place of the metrics folder that knows yaml-cpp.
#include "assay/metrics/config_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {

namespace {
constexpr std::size_t kMaxDepth = 8;
constexpr std::size_t kMaxBytes = 1 << 20;

// Plain where that cannot be misread; quotes would make a number text.
std::string quoted_yaml(const std::string& scalar, bool quoted) {
  const auto harmless = [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.' || c == '^';
  };
  if (!quoted && std::all_of(scalar.begin(), scalar.end(), harmless))
    return scalar;
  std::string out = "\"";
  for (const char c : scalar) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + '"';
}

}  // namespace

// Builds nodes from the parser's events: an alias, which can make a small file
// stand for an enormous tree, is refused before it is followed, and depth
// before it is reached.
class ConfigBuilder : public YAML::EventHandler {
 public:
  explicit ConfigBuilder(const std::string& origin) : origin_(origin) {}

  std::optional<ConfigNode> root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    make(mark).fail(
        "the value is missing (inside { } and [ ] a comma ends a value: put "
        "quotes around text that has one)");
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse_alias(mark);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    if (anchor) refuse_alias(mark);
    ConfigNode node = make(mark);
    refuse_tag(node, tag);
    node.scalar_ = value;
    node.quoted_ = tag == "!";
    put(std::move(node));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    ConfigNode node;
    std::optional<std::string> key;  // of a mapping: its value comes next
    int key_line = 0;
  };

  ConfigNode make(const YAML::Mark& mark) const {
    ConfigNode node;
    node.origin_ = origin_;
    node.line_ = mark.line + 1;
    return node;
  }
  void refuse_alias(const YAML::Mark& mark) const {
    make(mark).fail("anchors and aliases are not accepted");
  }
  // "?" is a plain scalar, "!" a quoted one; a written tag asks for a type.
  static void refuse_tag(const ConfigNode& node, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    node.fail(fmt::format("tag '{}': tags are not accepted", printable(tag)));
  }
  void open(const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, ConfigNode::Kind kind) {
    if (anchor) refuse_alias(mark);
    ConfigNode node = make(mark);
    refuse_tag(node, tag);
    if (stack_.size() > kMaxDepth) node.fail("nested too deeply");
    node.kind_ = kind;
    if (!stack_.empty() && stack_.back().node.is_map() && !stack_.back().key)
      node.fail("a key is not plain text");
    stack_.push_back({std::move(node), std::nullopt, 0});
  }
  void close() {
    ConfigNode done = std::move(stack_.back().node);
    stack_.pop_back();
    put(std::move(done));
  }
  void put(ConfigNode node) {
    if (stack_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = stack_.back();
    if (parent.node.is_list()) {
      parent.node.items_.push_back(std::move(node));
    } else if (!parent.key) {
      if (parent.node.find(node.scalar_))
        node.fail(
            fmt::format("key '{}' is given twice", printable(node.scalar_)));
      parent.key = std::move(node.scalar_);
      parent.key_line = node.line_;
    } else {
      node.line_ = parent.key_line;  // a nested mapping begins one further
      parent.node.entries_.emplace_back(std::move(*parent.key),
                                        std::move(node));
      parent.key.reset();
    }
  }

  const std::string& origin_;
  std::vector<Open> stack_;
};

ConfigNode ConfigNode::parse(const std::string& text,
                             const std::string& origin) {
  if (text.size() > kMaxBytes)
    throw Error(Code::kUsage, fmt::format("{}: {} bytes, expected at most {}",
                                          origin, text.size(), kMaxBytes));
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    ConfigBuilder builder(origin);
    parser.HandleNextDocument(builder);
    std::optional<ConfigNode> root = std::move(builder.root);
    if (!root || !root->is_map() || parser.HandleNextDocument(builder))
      throw Error(Code::kUsage,
                  fmt::format("{}:1: expected one YAML mapping", origin));
    return std::move(*root);
  } catch (const YAML::Exception& e) {
    throw Error(Code::kUsage, fmt::format("{}:{}: not valid YAML: {}", origin,
                                          e.mark.line + 1, printable(e.msg)));
  }
}

std::string ConfigNode::place() const {
  return fmt::format("{}:{}", origin_, line_);
}

void ConfigNode::fail(const std::string& message) const {
  throw Error(Code::kUsage, fmt::format("{}: {}", place(), message));
}

const std::vector<std::pair<std::string, ConfigNode>>& ConfigNode::entries()
    const {
  if (!is_map()) fail("expected a mapping");
  return entries_;
}

const std::vector<ConfigNode>& ConfigNode::items() const {
  if (!is_list()) fail("expected a list");
  return items_;
}

void ConfigNode::allow_only(const std::vector<std::string_view>& keys) const {
  for (const auto& [key, value] : entries()) {
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    value.fail(fmt::format("unknown key '{}', expected one of {}",
                           printable(key), fmt::join(keys, ", ")));
  }
}

const ConfigNode* ConfigNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries())
    if (name == key) return &value;
  return nullptr;
}

const ConfigNode& ConfigNode::at(std::string_view key) const {
  const ConfigNode* found = find(key);
  if (!found) fail(fmt::format("key '{}' is missing", key));
  return *found;
}

std::string ConfigNode::text() const {
  if (!is_scalar() || scalar_.empty()) fail("expected text");
  return scalar_;
}

bool ConfigNode::boolean() const { return one_of({"false", "true"}) == 1; }

std::size_t ConfigNode::one_of(
    std::initializer_list<std::string_view> words) const {
  std::size_t index = 0;
  for (const std::string_view word : words) {
    if (is_scalar() && scalar_ == word) return index;
    ++index;
  }
  fail(fmt::format("found '{}', expected one of {}", printable(scalar_),
                   fmt::join(words, ", ")));
}

double ConfigNode::number() const {
  if (!is_scalar()) fail("expected a number");
  const bool power = scalar_.rfind("2^", 0) == 0;
  const std::string digits = power ? scalar_.substr(2) : scalar_;
  char* end = nullptr;
  double value = std::strtod(digits.c_str(), &end);
  if (digits.empty() || *end != '\0')
    fail(fmt::format("found '{}', expected a number such as 0.01 or 2^-9",
                     printable(scalar_)));
  if (power) {
    if (value != std::floor(value) || std::fabs(value) > 1000)
      fail(fmt::format("found '{}', expected a whole exponent", scalar_));
    value = std::ldexp(1.0, static_cast<int>(value));
  }
  if (!std::isfinite(value) || value < 0)
    fail(fmt::format("found '{}', expected a finite number >= 0", scalar_));
  return value;
}

std::string ConfigNode::to_yaml() const {
  if (is_scalar()) return quoted_yaml(scalar_, quoted_);
  std::string out;
  for (const auto& [key, value] : entries_)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ",
                       quoted_yaml(key, true), value.to_yaml());
  for (const ConfigNode& item : items_)
    out += (out.empty() ? "" : ", ") + item.to_yaml();
  return is_map() ? "{" + out + "}" : "[" + out + "]";
}

double ConfigNode::number_or(std::string_view key, double absent) const {
  const ConfigNode* found = find(key);
  return found ? found->number() : absent;
}

}  // namespace assay
