#include "assay/conform/api/inventory.h"

#include <algorithm>
#include <limits>
#include <set>

#include "assay/base/error.h"
#include "assay/base/text.h"
#include "assay/conform/report/run_fields.h"
#include "assay/metrics/config_node.h"

namespace assay::conform {
namespace {

constexpr std::int64_t kSchema = 1;

constexpr std::int64_t kMost = std::numeric_limits<int>::max();

std::map<std::string, int> read_counts(const RunFields& api, const char* name) {
  const RunFields counts = api.member(name);
  std::map<std::string, int> read;
  for (const auto& [key, count] : api.find(name)->object()) {
    read[key] = static_cast<int>(counts.integer(key.c_str(), 0, kMost));
  }
  return read;
}

ApiEntry read_entry(const RunFields& api) {
  ApiEntry entry;
  entry.name = api.text("name");
  entry.uses = static_cast<int>(api.integer("uses", 0, kMost));
  entry.kinds = read_counts(api, "kinds");
  entry.files = read_counts(api, "files");
  return entry;
}

void classify(ApiEntry& entry, const std::vector<ClassRule>& rules) {
  for (const ClassRule& rule : rules) {
    if (!glob_match(rule.pattern, entry.name)) continue;
    entry.api_class = rule.api_class;
    entry.why = rule.why;
    return;
  }
}

// Every path that a path of the manifest has beside it.
class Aliases {
 public:
  explicit Aliases(const ApiManifest& manifest) {
    for (const auto& [name, symbol] : manifest.symbols) {
      for (const std::string& path : symbol.paths) paths_[path] = &symbol.paths;
    }
  }
  bool know(const std::string& name) const { return paths_.contains(name); }
  std::vector<std::string> of(const std::string& name) const {
    const auto place = paths_.find(name);
    return place == paths_.end() ? std::vector{name} : *place->second;
  }

 private:
  std::map<std::string, const std::vector<std::string>*> paths_;
};

bool names(const ApiGuard& guard, const std::vector<std::string>& paths) {
  for (const std::string& api : guard.apis) {
    for (const std::string& path : paths) {
      if (api == path || api.starts_with(path + ".")) return true;
    }
  }
  return false;
}

void join(ApiEntry& entry, const Aliases& aliases, const ApiManifest& manifest,
          const std::vector<ApiGuard>& guards) {
  entry.in_manifest = aliases.know(entry.name);
  const std::vector<std::string> paths = aliases.of(entry.name);
  // A module or package that a spec names something of is not guarded by it.
  const auto symbol = manifest.symbols.find(entry.name);
  const bool is_module =
      symbol != manifest.symbols.end() && symbol->second.kind == "module";
  for (const ApiGuard& guard : guards) {
    if (!is_module && names(guard, paths)) entry.guards.push_back(guard.name);
  }
  if (entry.api_class == ApiClass::kContract && entry.in_manifest) {
    entry.guards.push_back("manifest " + manifest.version);
  }
}

}  // namespace

std::string_view to_string(ApiClass api_class) {
  switch (api_class) {
    case ApiClass::kContract:
      return "contract";
    case ApiClass::kNumeric:
      return "numeric";
    case ApiClass::kChain:
      return "chain";
    case ApiClass::kUnclassified:
      return "unclassified";
  }
  throw Error(Code::kInternal, "inventory: unknown class");
}

std::vector<ClassRule> parse_class_rules(const std::string& yaml,
                                         const std::string& origin) {
  const ConfigNode top = ConfigNode::parse(yaml, origin);
  top.allow_only({"rules"});
  std::vector<ClassRule> rules;
  for (const auto& [pattern, node] : top.at("rules").entries()) {
    node.allow_only({"class", "why"});
    const std::size_t which =
        node.at("class").one_of({"contract", "numeric", "chain"});
    rules.push_back(
        {pattern, static_cast<ApiClass>(which), node.at("why").text()});
  }
  return rules;
}

bool Inventory::is_complete() const {
  return files_read > 0 && uses > 0 && problems.empty();
}

Inventory make_inventory(const Value& scan, const std::vector<ClassRule>& rules,
                         const ApiManifest& manifest,
                         const std::vector<ApiGuard>& guards) {
  const RunFields top(scan, "scan");
  top.integer("assay_api_scan", kSchema, kSchema);
  const Aliases aliases(manifest);
  Inventory inventory;
  inventory.has_manifest = !manifest.symbols.empty();
  inventory.problems = parse_problems(scan, "scan");
  inventory.files_read = static_cast<int>(top.integer("files_read", 0, kMost));
  std::set<std::string> files;
  top.each("apis", [&](const RunFields& api) {
    ApiEntry entry = read_entry(api);
    classify(entry, rules);
    join(entry, aliases, manifest, guards);
    Inventory::Share& share =
        inventory.shares[static_cast<std::size_t>(entry.api_class)];
    ++share.apis;
    share.uses += entry.uses;
    share.unguarded += entry.guards.empty();
    inventory.uses += entry.uses;
    for (const auto& [file, count] : entry.files) files.insert(file);
    inventory.apis.push_back(std::move(entry));
  });
  inventory.files_with_uses = static_cast<int>(files.size());
  std::sort(inventory.apis.begin(), inventory.apis.end(),
            [](const ApiEntry& a, const ApiEntry& b) {
              return std::pair(a.api_class, a.name) <
                     std::pair(b.api_class, b.name);
            });
  return inventory;
}

Value annotated(const Value& scan, const Inventory& inventory) {
  std::map<std::string, const ApiEntry*> by_name;
  for (const ApiEntry& entry : inventory.apis) by_name[entry.name] = &entry;
  Value document = scan;
  for (Value& api : document.object()["apis"].list()) {
    Object& members = api.object();
    const ApiEntry& entry = *by_name.at(members["name"].text());
    List guards(entry.guards.begin(), entry.guards.end());
    members["class"] = to_string(entry.api_class);
    members["why"] = entry.why;
    members["in_manifest"] =
        inventory.has_manifest ? Value(entry.in_manifest) : Value();
    members["guarded_by"] = std::move(guards);
  }
  return document;
}

}  // namespace assay::conform
