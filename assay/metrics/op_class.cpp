// From an API or module name, as dumps spell it, to the class of operator.
#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "assay/base/text.h"
#include "assay/metrics/op_class_table.h"
#include "assay/metrics/standard.h"

namespace assay {
namespace {

struct Table {
  std::unordered_map<std::string_view, OpClass> ops, modules;
  std::unordered_set<std::string_view> accumulates, module_accumulates;
};

Table make_table() {
  Table table;
  const auto add = [](auto& map, std::string_view list, OpClass op) {
    for (const std::string_view name : op_table::names(list))
      map.emplace(name, op);
  };
  using namespace op_table;
  add(table.ops, kMovementOps, OpClass::kMovement);
  add(table.ops, kElementwiseOps, OpClass::kElementwise);
  add(table.ops, kReductionOps, OpClass::kReduction);
  add(table.ops, kGemmOps, OpClass::kGemm);
  add(table.ops, kRandomOps, OpClass::kRandom);
  add(table.modules, kMovementModules, OpClass::kMovement);
  add(table.modules, kElementwiseModules, OpClass::kElementwise);
  add(table.modules, kReductionModules, OpClass::kReduction);
  add(table.modules, kGemmModules, OpClass::kGemm);
  add(table.modules, kRandomModules, OpClass::kRandom);
  for (const auto name : names(kBackwardAccumulates))
    table.accumulates.insert(name);
  for (const auto name : names(kModuleBackwardAccumulates))
    table.module_accumulates.insert(name);
  return table;
}

const Table& table() {
  static const Table instance = make_table();
  return instance;
}

bool is_number(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_backward(std::string_view word) {
  return word == "backward" || word == "parameters_grad";
}

bool ends_the_name(std::string_view word) {
  return is_backward(word) || word == "forward" || word == "parameters";
}

bool is_module_prefix(std::string_view word) {
  return word == "Module" || word == "Cell";
}

struct ParsedName {
  std::string_view api;  // without prefix, call index and direction
  bool module = false;
  bool backward = false;
};

// "Functional.linear.0.forward", "Module.a.b.Linear.forward.0", "aten.add.out",
// "torch.nn.functional.gelu", "gelu".
ParsedName parse_dotted(std::string_view text) {
  std::vector<std::string_view> words = split(text, '.');
  ParsedName parsed;
  parsed.module = is_module_prefix(words[0]);
  const auto end = std::find_if(words.begin(), words.end(), ends_the_name);
  if (end != words.end()) parsed.backward = is_backward(*end);
  words.erase(end, words.end());
  while (words.size() > 1 && is_number(words.back())) words.pop_back();
  if (words.empty()) return parsed;
  const bool aten = iequals(words[0], "aten") && words.size() > 1;
  parsed.api = aten ? words[1] : words.back();
  return parsed;
}

// The oldest dumps join by underscores: "Functional_conv2d_0_forward_output.0".
// Nothing of that form: an empty api.
ParsedName parse_underscored(std::string_view text) {
  ParsedName parsed;
  for (const std::string_view direction : {"_forward", "_backward"}) {
    const std::size_t at = text.find(direction);
    if (at == std::string_view::npos) continue;
    std::string_view head = text.substr(0, at);
    const std::size_t index = head.find_last_not_of("0123456789");
    if (index == std::string_view::npos || head[index] != '_') continue;
    head = head.substr(0, index);
    const std::size_t prefix = head.find('_');
    if (prefix == std::string_view::npos) continue;
    parsed.module = is_module_prefix(head.substr(0, prefix));
    parsed.backward = direction == "_backward";
    parsed.api = head.substr(parsed.module ? head.rfind('_') + 1 : prefix + 1);
    return parsed;
  }
  return parsed;
}

ParsedName parse(std::string_view text) {
  const std::size_t colons = text.rfind("::");
  if (colons != std::string_view::npos) {
    const std::string_view api = text.substr(colons + 2);
    return {api.substr(0, api.find('.')), false, false};
  }
  const ParsedName old = parse_underscored(text);
  return old.api.empty() ? parse_dotted(text) : old;
}

// "__iadd__" -> "iadd", "add_" -> "add", "_softmax" -> "softmax".
std::string bare(std::string_view api) {
  while (!api.empty() && api.front() == '_') api.remove_prefix(1);
  while (!api.empty() && api.back() == '_') api.remove_suffix(1);
  std::string name(api);
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return name;
}

// The listed name that `api` is a spelling of, "" when there is none.
std::string listed_name(std::string_view api) {
  const bool dunder = api.substr(0, 2) == "__";
  std::string name = bare(api);
  if (table().ops.contains(name)) return name;
  // "__iadd__" and "__radd__" are add in place and add reversed.
  if (dunder && name.size() > 2 && (name[0] == 'i' || name[0] == 'r'))
    name.erase(0, 1);
  return table().ops.contains(name) ? name : "";
}

OpClass module_class(const ParsedName& parsed) {
  const auto found = table().modules.find(parsed.api);
  if (found == table().modules.end()) return OpClass::kUnknown;
  const bool sums =
      parsed.backward && table().module_accumulates.contains(parsed.api);
  return sums ? OpClass::kReduction : found->second;
}

}  // namespace

OpClass op_class(std::string_view api_name) {
  if (api_name.empty()) return OpClass::kUnknown;
  const ParsedName parsed = parse(api_name);
  if (parsed.module) return module_class(parsed);
  const std::string name = listed_name(parsed.api);
  if (name.empty()) {
    // A bare class name, as a module's API is often handed over.
    return module_class(parsed);
  }
  if (table().modules.contains(parsed.api)) return module_class(parsed);
  if (parsed.backward && table().accumulates.contains(name))
    return OpClass::kReduction;
  return table().ops.at(name);
}

OpClass class_given_inputs(OpClass op, bool inputs_bitwise_equal) {
  const bool tight = op == OpClass::kMovement || op == OpClass::kElementwise;
  return tight && !inputs_bitwise_equal ? OpClass::kUnknown : op;
}

}  // namespace assay
