// Applies the rules of a --map file to the names of one golden trace.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "assay/compare/map_rules.h"
#include "assay/trace/trace.h"

namespace assay {

// A rule that equals a module ("fc2.Dense") or API ("Torch.abs") of the golden
// replaces that whole name and wins over everything; else the name itself, if
// the target has it; else the layer rules, then every text rule in the order
// of the file, if the target has the result. Not thread-safe: remembers what
// it translated and which rules were of use.
class NameTranslator {
 public:
  NameTranslator(const MapRules& rules, const Trace& golden,
                 const Trace& target);

  // "Prefix.api" of the target for an operator of the golden.
  const std::string& target_api(const Op& op);
  // The operator's full name in the target.
  std::string target_name(const Op& op);
  // Text rules alone; nullopt where none applies.
  std::optional<std::string> replace_text(std::string_view name);

  void mark_used(std::size_t rule) { used_[rule] = true; }
  const std::vector<bool>& used() const { return used_; }

 private:
  void find_module_rules(const Trace& golden);
  std::string translate(const Op& op, const std::string& full);
  std::string map_layers(const Op& op);

  const MapRules& rules_;
  std::vector<bool> used_;
  std::vector<bool> is_module_rule_;
  std::unordered_map<std::string_view, std::size_t> text_rules_;
  std::unordered_map<std::string, std::size_t> layer_rules_;  // "Class.attr"
  std::unordered_map<std::string_view, std::string_view> class_of_path_;
  std::unordered_map<std::string, std::string> target_of_path_;
  std::unordered_set<std::string> target_apis_;
  std::unordered_map<std::string, std::string> memo_;
};

// "Module.layers.0.mlp.Linear".
std::string full_api(const Op& op);

}  // namespace assay
