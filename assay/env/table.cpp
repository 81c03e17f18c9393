#include "assay/env/table.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/env/embedded_table.h"
#include "assay/metrics/config_node.h"

namespace assay::env {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string> globs(const ConfigNode& node) {
  std::vector<std::string> all;
  for (const ConfigNode& item : node.items()) all.push_back(lower(item.text()));
  if (all.empty()) node.fail("expected at least one key");
  return all;
}

std::string full_key(Section section, std::string_view key) {
  return std::string(to_string(section)) + "." + lower(key);
}

bool any_matches(const std::vector<std::string>& patterns,
                 const std::string& key) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [&](const std::string& pattern) { return glob_match(pattern, key); });
}

}  // namespace

const RankTable& RankTable::shipped() {
  static const RankTable table = [] {
    for (const EmbeddedTable& file : embedded_tables())
      if (file.name == "ranks")
        return parse(std::string(file.yaml), "specs/environment/ranks.yaml");
    throw Error(Code::kInternal,
                "specs/environment/ranks.yaml is not built in");
  }();
  return table;
}

RankTable RankTable::parse(const std::string& yaml, const std::string& origin) {
  const ConfigNode root = ConfigNode::parse(yaml, origin);
  root.allow_only(
      {"date", "groups", "expected", "pairs", "same", "vendors", "defaults"});
  RankTable table;
  table.date_ = root.at("date").text();
  for (const ConfigNode& node : root.at("groups").items()) {
    node.allow_only({"name", "why", "keys"});
    table.groups_.push_back({node.at("name").text(), node.at("why").text(),
                             globs(node.at("keys"))});
  }
  for (const ConfigNode& node : root.at("expected").items()) {
    node.allow_only({"why", "keys"});
    table.expected_.push_back({node.at("why").text(), globs(node.at("keys"))});
  }
  for (const ConfigNode& node : root.at("pairs").items()) {
    node.allow_only({"name", "keys"});
    table.pairs_.push_back({node.at("name").text(), globs(node.at("keys"))});
  }
  for (const ConfigNode& node : root.at("same").items()) {
    node.allow_only({"keys", "values"});
    table.same_.push_back({globs(node.at("keys")), globs(node.at("values"))});
  }
  for (const auto& [name, node] : root.at("vendors").entries())
    table.vendors_[name] = globs(node);
  for (const ConfigNode& node : root.at("defaults").items()) {
    node.allow_only({"name", "programs", "values"});
    Defaults made{node.at("name").text(), globs(node.at("programs")), {}};
    for (const auto& [key, value] : node.at("values").entries())
      made.values[key] = value.text();
    table.defaults_.push_back(std::move(made));
  }
  return table;
}

std::size_t RankTable::rank(Section section, std::string_view key) const {
  const std::string full = full_key(section, key);
  const auto found = std::find_if(
      groups_.begin(), groups_.end(),
      [&](const RankGroup& group) { return any_matches(group.keys, full); });
  return static_cast<std::size_t>(found - groups_.begin());
}

std::optional<std::string> RankTable::expected(Section section,
                                               std::string_view key) const {
  const std::string full = full_key(section, key);
  for (const Expected& each : expected_)
    if (any_matches(each.keys, full)) return each.why;
  return std::nullopt;
}

std::optional<std::string> RankTable::common_name(Section section,
                                                  std::string_view key) const {
  const std::string full = full_key(section, key);
  for (const Pair& each : pairs_)
    if (any_matches(each.keys, full)) return each.name;
  return std::nullopt;
}

bool RankTable::same_meaning(Section section, std::string_view key,
                             std::string_view a, std::string_view b) const {
  const std::string full = full_key(section, key);
  const std::string first = lower(a), second = lower(b);
  return std::any_of(same_.begin(), same_.end(), [&](const Same& each) {
    const auto has = [&](const std::string& value) {
      return std::find(each.values.begin(), each.values.end(), value) !=
             each.values.end();
    };
    return any_matches(each.keys, full) && has(first) && has(second);
  });
}

std::string RankTable::vendor(Section section, std::string_view key) const {
  const std::string full = full_key(section, key);
  for (const auto& [name, keys] : vendors_)
    if (any_matches(keys, full)) return name;
  return "";
}

std::optional<RankTable::Default> RankTable::option_default(
    const Snapshot& snapshot, std::string_view key) const {
  const auto& options = snapshot[Section::kHyperparameters].values;
  const auto program = options.find("program");
  if (program == options.end()) return std::nullopt;
  for (const Defaults& each : defaults_) {
    if (!any_matches(each.programs, lower(program->second.text))) continue;
    const auto value = each.values.find(std::string(key));
    if (value != each.values.end()) return Default{value->second, each.name};
  }
  return std::nullopt;
}

std::string vendor_of(const RankTable& table, const Snapshot& snapshot) {
  const auto& device = snapshot[Section::kDevice].values;
  const auto said = device.find("vendor");
  if (said != device.end()) return said->second.text;
  std::set<std::string> found;
  for (const Section section :
       {Section::kEnvironment, Section::kLibraries, Section::kDevice})
    for (const auto& [key, value] : snapshot[section].values)
      found.insert(table.vendor(section, key));
  found.erase("");
  // Their stacks come with names of CUDA that ported programs read.
  for (const char* ported : {"npu", "musa"})
    if (found.count(ported) != 0) found.erase("cuda");
  return found.size() == 1 ? *found.begin() : "";
}

}  // namespace assay::env
