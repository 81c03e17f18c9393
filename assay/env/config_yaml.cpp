// YAML configurations, flat. The only place of this folder that knows yaml-cpp.
#include <yaml-cpp/yaml.h>

#include <vector>

#include "assay/env/config_values.h"

namespace assay::env {
namespace {

constexpr int kMostDepth = 64;
// An alias stands for what its anchor has: a small file for an enormous tree.
constexpr std::size_t kMostNodes = 200'000;

class YamlConfig {
 public:
  explicit YamlConfig(ConfigValues& values) : values_(values) {}

  void value(const YAML::Node& node, const std::string& key, int depth) {
    const int line = node.Mark().line + 1;
    if (depth > kMostDepth) values_.refuse("more than 64 levels", line);
    if (++nodes_ > kMostNodes)
      values_.refuse("more than 200,000 values, aliases counted", line);
    if (node.IsMap()) {
      // "<<: *base" first: the keys beside it are over those of the base.
      for (const auto& item : node)
        if (name_of(item.first) == "<<") value(item.second, key, depth + 1);
      for (const auto& item : node) {
        const std::string name = name_of(item.first);
        if (name != "<<") value(item.second, under(key, name), depth + 1);
      }
    } else if (node.IsSequence()) {
      sequence(node, key, depth);
    } else {
      values_.add(key.empty() ? "value" : key, scalar(node), line);
    }
  }

 private:
  std::string name_of(const YAML::Node& key) const {
    if (!key.IsScalar())
      values_.refuse("a key that is no scalar", key.Mark().line + 1);
    return key.Scalar();
  }

  static Value scalar(const YAML::Node& node) {
    if (!node.IsScalar()) return {Kind::kNull, "null", ""};
    // "!" is the tag of a quoted scalar, which is text whatever it looks like.
    if (node.Tag() == "!") return {Kind::kText, node.Scalar(), ""};
    return plain_value(node.Scalar());
  }

  void sequence(const YAML::Node& node, const std::string& key, int depth) {
    std::string joined;
    bool scalars = false;
    for (std::size_t i = 0; i < node.size(); ++i) {
      if (node[i].IsMap() || node[i].IsSequence()) {
        value(node[i], under(key, std::to_string(i)), depth + 1);
        continue;
      }
      if (++nodes_ > kMostNodes) values_.refuse("more than 200,000 values");
      joined += (scalars ? " " : "") + scalar(node[i]).text;
      scalars = true;
    }
    if (scalars || node.size() == 0)
      values_.add(key, {Kind::kText, node.size() == 0 ? "[]" : joined, ""},
                  node.Mark().line + 1);
  }

  ConfigValues& values_;
  std::size_t nodes_ = 0;
};

}  // namespace

void read_yaml_config(std::string_view text, ConfigValues& values) {
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    YamlConfig reader(values);
    std::size_t number = 0;
    for (const YAML::Node& document : documents) {
      if (document.IsNull()) continue;
      reader.value(document,
                   ++number == 1 ? "" : "document" + std::to_string(number), 0);
    }
  } catch (const YAML::Exception& error) {
    values.refuse("no YAML: " + error.msg, error.mark.line + 1);
  }
}

}  // namespace assay::env
