// The only place of the metrics folder that knows yaml-cpp.
#include "assay/metrics/config_node.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <set>

#include "assay/base/error.h"
#include "assay/base/text.h"

namespace assay {

namespace {
constexpr int kMaxDepth = 8;
constexpr std::size_t kMaxBytes = 1 << 20;
}  // namespace

struct ConfigBuilder {
  static ConfigNode build(const YAML::Node& yaml, const std::string& origin,
                          int depth) {
    ConfigNode node;
    node.origin_ = origin;
    node.line_ = yaml.Mark().line + 1;
    if (depth > kMaxDepth) node.fail("nested too deeply");
    if (yaml.IsScalar()) {
      node.scalar_ = yaml.Scalar();
      return node;
    }
    if (!yaml.IsMap()) node.fail("expected a value or a mapping");
    node.is_map_ = true;
    std::set<std::string> seen;
    for (const auto& item : yaml) {
      if (!item.first.IsScalar()) node.fail("a key is not plain text");
      const std::string& key = item.first.Scalar();
      ConfigNode child = build(item.second, origin, depth + 1);
      if (!seen.insert(key).second)
        child.fail(fmt::format("key '{}' is given twice", printable(key)));
      node.entries_.emplace_back(key, std::move(child));
    }
    return node;
  }
};

namespace {

// An alias can make a small file stand for an enormous tree, and no standard
// has a use for one.
void refuse_aliases(const std::string& text, const std::string& origin) {
  for (const char sign : {'&', '*'}) {
    std::size_t at = text.find(sign);
    for (; at != std::string::npos; at = text.find(sign, at + 1)) {
      const bool starts_word =
          at + 1 < text.size() && std::isalnum(text[at + 1]) &&
          (at == 0 || text[at - 1] == ' ' || text[at - 1] == '[');
      if (!starts_word) continue;
      throw Error(Code::kUsage,
                  fmt::format("{}: '{}{}' at byte {}: anchors and aliases are "
                              "not accepted",
                              origin, sign, text[at + 1], at));
    }
  }
}

}  // namespace

ConfigNode ConfigNode::parse(const std::string& text,
                             const std::string& origin) {
  if (text.size() > kMaxBytes)
    throw Error(Code::kUsage, fmt::format("{}: {} bytes, expected at most {}",
                                          origin, text.size(), kMaxBytes));
  refuse_aliases(text, origin);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() != 1 || !documents[0].IsMap())
      throw Error(Code::kUsage,
                  fmt::format("{}:1: expected one YAML mapping", origin));
    return ConfigBuilder::build(documents[0], origin, 0);
  } catch (const YAML::Exception& e) {
    throw Error(Code::kUsage, fmt::format("{}:{}: not valid YAML: {}", origin,
                                          e.mark.line + 1, e.msg));
  }
}

void ConfigNode::fail(const std::string& message) const {
  throw Error(Code::kUsage, fmt::format("{}:{}: {}", origin_, line_, message));
}

const std::vector<std::pair<std::string, ConfigNode>>& ConfigNode::entries()
    const {
  if (!is_map_) fail("expected a mapping");
  return entries_;
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
  if (is_map_ || scalar_.empty()) fail("expected text");
  return scalar_;
}

bool ConfigNode::boolean() const { return one_of({"false", "true"}) == 1; }

std::size_t ConfigNode::one_of(
    std::initializer_list<std::string_view> words) const {
  std::size_t index = 0;
  for (const std::string_view word : words) {
    if (!is_map_ && scalar_ == word) return index;
    ++index;
  }
  fail(fmt::format("found '{}', expected one of {}", printable(scalar_),
                   fmt::join(words, ", ")));
}

double ConfigNode::number() const {
  if (is_map_) fail("expected a number");
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

double ConfigNode::number_or(std::string_view key, double absent) const {
  const ConfigNode* found = find(key);
  return found ? found->number() : absent;
}

}  // namespace assay
