#include "assay/compare/match_ops.h"

#include <algorithm>
#include <filesystem>

#include "assay/compare/name_index.h"

namespace assay {
namespace {

std::int32_t size_of(const std::vector<Op>& ops) {
  return static_cast<std::int32_t>(ops.size());
}

// One tensor file: its only operator is named after the file, and that name
// says nothing about what is inside.
bool is_single_file(const Trace& trace) {
  std::error_code error;
  return trace.ops.size() == 1 &&
         std::all_of(trace.records.begin(), trace.records.end(),
                     [](const Record& r) { return r.role == Role::kTensor; }) &&
         std::filesystem::is_regular_file(trace.path, error);
}

void match_by_call_rules(const Trace& golden, const Trace& target,
                         const MapRules& rules, NameTranslator& translator,
                         OpPartners& partners) {
  if (!rules.has(MapKind::kOp)) return;
  NameIndex golden_names(golden.ops.size());
  NameIndex target_names(target.ops.size());
  for (std::int32_t i = 0; i < size_of(golden.ops); ++i) {
    golden_names.insert(golden.ops[i].name, i);
  }
  for (std::int32_t i = 0; i < size_of(target.ops); ++i) {
    target_names.insert(target.ops[i].name, i);
  }
  for (std::size_t r = 0; r < rules.rules.size(); ++r) {
    const MapRule& rule = rules.rules[r];
    if (rule.kind != MapKind::kOp || !golden_names.contains(rule.golden) ||
        !target_names.contains(rule.target)) {
      continue;
    }
    const std::int32_t g = golden_names.take(rule.golden);
    const std::int32_t t = target_names.take(rule.target);
    if (g < 0 || t < 0) continue;
    partners.join(g, t, PairedBy::kName);
    translator.mark_used(r);
  }
}

// Names that agree position by position need no hashing. Stops at the first
// that differs, so equal names are still paired in order.
std::int32_t match_common_start(const Trace& golden, const Trace& target,
                                OpPartners& partners) {
  const std::int32_t shorter =
      std::min(size_of(golden.ops), size_of(target.ops));
  std::int32_t i = 0;
  for (; i < shorter && golden.ops[i].name == target.ops[i].name; ++i) {
    partners.join(i, i, PairedBy::kName);
  }
  return i;
}

void match_by_name(const Trace& golden, const Trace& target,
                   NameTranslator* translator, OpPartners& partners) {
  const std::int32_t begin =
      translator ? 0 : match_common_start(golden, target, partners);
  NameIndex names(target.ops.size() - begin);
  for (std::int32_t i = begin; i < size_of(target.ops); ++i) {
    if (partners.of_target[i] < 0) names.insert(target.ops[i].name, i);
  }
  for (std::int32_t i = begin; i < size_of(golden.ops); ++i) {
    if (partners.of_golden[i] >= 0) continue;
    const Op& op = golden.ops[i];
    std::int32_t found =
        names.take(translator ? translator->target_name(op) : op.name);
    if (found < 0 && translator && !names.contains(op.name)) {
      const auto text = translator->replace_text(op.name);
      if (text) found = names.take(*text);
    }
    if (found >= 0) partners.join(i, found, PairedBy::kName);
  }
}

}  // namespace

OpPartners match_ops(const Trace& golden, const Trace& target,
                     const MapRules& rules, NameTranslator* translator,
                     bool fuzzy) {
  OpPartners partners;
  partners.of_golden.assign(golden.ops.size(), -1);
  partners.of_target.assign(target.ops.size(), -1);
  partners.by.assign(golden.ops.size(), PairedBy::kNothing);
  if (is_single_file(golden) && is_single_file(target)) {
    partners.join(0, 0, PairedBy::kName);
    return partners;
  }
  if (translator) {
    match_by_call_rules(golden, target, rules, *translator, partners);
  }
  if (fuzzy) match_ops_fuzzy(golden, target, translator, partners);
  match_by_name(golden, target, translator, partners);
  return partners;
}

}  // namespace assay
