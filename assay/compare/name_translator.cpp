#include "assay/compare/name_translator.h"

#include "assay/base/text.h"

namespace assay {
namespace {

// The name a layer rule gives to the class of the whole model, which has no
// operator of its own in a dump.
constexpr std::string_view kTopLayer = "TopLayer";

bool is_module(const Op& op) {
  return op.prefix == "Module" || op.prefix == "Cell";
}

// "layers.0.mlp" of "layers.0.mlp.Linear"; "" where there is no path.
std::string_view module_path(std::string_view api) {
  const std::size_t dot = api.rfind('.');
  return dot == std::string_view::npos ? std::string_view()
                                       : api.substr(0, dot);
}

std::string_view module_class(std::string_view api) {
  const std::size_t dot = api.rfind('.');
  return dot == std::string_view::npos ? api : api.substr(dot + 1);
}

// Replaces every occurrence; false when there is none.
bool replace_all(std::string& text, std::string_view from,
                 std::string_view to) {
  bool found = false;
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
    found = true;
  }
  return found;
}

}  // namespace

std::string full_api(const Op& op) {
  return op.prefix.empty() ? op.api : op.prefix + "." + op.api;
}

NameTranslator::NameTranslator(const MapRules& rules, const Trace& golden,
                               const Trace& target)
    : rules_(rules),
      used_(rules.rules.size()),
      is_module_rule_(rules.rules.size()) {
  for (std::size_t i = 0; i < rules.rules.size(); ++i) {
    const MapRule& rule = rules.rules[i];
    if (rule.kind == MapKind::kText) text_rules_[rule.golden] = i;
    if (rule.kind == MapKind::kLayer) {
      layer_rules_[rule.layer + "." + rule.golden] = i;
    }
  }
  if (rules.rules.empty()) return;
  find_module_rules(golden);
  for (const Op& op : target.ops) {
    target_apis_.insert(full_api(op));
    if (is_module(op)) {
      target_of_path_[std::string(module_path(op.api))] = full_api(op);
    }
  }
}

void NameTranslator::find_module_rules(const Trace& golden) {
  for (const Op& op : golden.ops) {
    if (is_module(op))
      class_of_path_[module_path(op.api)] = module_class(op.api);
    for (const std::string& name : {op.api, full_api(op)}) {
      const auto rule = text_rules_.find(name);
      if (rule != text_rules_.end()) is_module_rule_[rule->second] = true;
    }
  }
}

const std::string& NameTranslator::target_api(const Op& op) {
  std::string full = full_api(op);
  const auto [at, is_new] = memo_.try_emplace(full);
  if (is_new) at->second = translate(op, full);
  return at->second;
}

std::string NameTranslator::translate(const Op& op, const std::string& full) {
  for (const std::string& name : {full, op.api}) {
    const auto rule = text_rules_.find(name);
    if (rule == text_rules_.end()) continue;
    used_[rule->second] = true;
    const std::string& to = rules_.rules[rule->second].target;
    return name == full || op.prefix.empty() ? to : op.prefix + "." + to;
  }
  if (target_apis_.contains(full)) return full;
  if (std::string mapped = map_layers(op); !mapped.empty()) return mapped;
  const auto replaced = replace_text(full);
  return replaced && target_apis_.contains(*replaced) ? *replaced : full;
}

// Renames attribute by attribute along the module's path and looks the result
// up without its class, which a port may rename freely. "" when no rule leads
// to a module of the target.
std::string NameTranslator::map_layers(const Op& op) {
  if (layer_rules_.empty() || !is_module(op)) return "";
  const std::string_view path = module_path(op.api);
  std::string mapped;
  std::vector<std::size_t> hits;
  std::size_t begin = 0;
  for (const std::string_view part : split(path, '.')) {
    const auto owner =
        class_of_path_.find(path.substr(0, begin ? begin - 1 : 0));
    const std::string_view layer = begin == 0 ? kTopLayer
                                   : owner == class_of_path_.end()
                                       ? std::string_view()
                                       : owner->second;
    const auto rule =
        layer_rules_.find(std::string(layer) + "." + std::string(part));
    if (!mapped.empty()) mapped += '.';
    if (rule == layer_rules_.end()) {
      mapped += part;
    } else {
      mapped += rules_.rules[rule->second].target;
      hits.push_back(rule->second);
    }
    begin += part.size() + 1;
  }
  const auto found = target_of_path_.find(mapped);
  if (hits.empty() || found == target_of_path_.end()) return "";
  for (const std::size_t rule : hits) used_[rule] = true;
  return found->second;
}

std::string NameTranslator::target_name(const Op& op) {
  const std::string full = full_api(op);
  if (op.name.starts_with(full + ".")) {
    return target_api(op) + op.name.substr(full.size());
  }
  return op.name;
}

std::optional<std::string> NameTranslator::replace_text(std::string_view name) {
  std::string text(name);
  bool changed = false;
  for (std::size_t i = 0; i < rules_.rules.size(); ++i) {
    const MapRule& rule = rules_.rules[i];
    if (rule.kind != MapKind::kText || is_module_rule_[i]) continue;
    if (!replace_all(text, rule.golden, rule.target)) continue;
    used_[i] = true;
    changed = true;
  }
  if (!changed) return std::nullopt;
  return text;
}

}  // namespace assay
