#include "assay/compare/match_records.h"

#include <filesystem>
#include <string>

#include "assay/compare/name_index.h"

namespace assay {
namespace {

std::int32_t as_index(std::size_t value) {
  return static_cast<std::int32_t>(value);
}

class RecordMatcher {
 public:
  RecordMatcher(const Trace& golden, const Trace& target, const MapRules& rules,
                NameTranslator* translator, const OpPartners& ops)
      : golden_(golden),
        target_(target),
        rules_(rules),
        translator_(translator),
        ops_(ops) {
    partners_.of_golden.assign(golden.records.size(), -1);
    partners_.of_target.assign(target.records.size(), -1);
  }

  RecordPartners run() {
    if (rules_.has(MapKind::kLeaf)) match_by_record_rules();
    for (std::size_t i = 0; i < golden_.ops.size(); ++i) {
      if (ops_.of_golden[i] < 0) continue;
      match_inside(golden_.ops[i], target_.ops[ops_.of_golden[i]]);
    }
    match_only_tensors();
    match_leftovers();
    return std::move(partners_);
  }

 private:
  void join(std::int32_t golden, std::int32_t target) {
    partners_.of_golden[golden] = target;
    partners_.of_target[target] = golden;
  }
  bool open_golden(std::int32_t i) const { return partners_.of_golden[i] < 0; }
  bool open_target(std::int32_t i) const { return partners_.of_target[i] < 0; }

  static std::vector<std::string> names(const Trace& trace) {
    std::vector<std::string> all;
    all.reserve(trace.records.size());
    for (const Record& record : trace.records) {
      all.push_back(trace.name(record));
    }
    return all;
  }

  static NameIndex index_of(const std::vector<std::string>& names) {
    NameIndex index(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      index.insert(names[i], as_index(i));
    }
    return index;
  }

  void match_by_record_rules() {
    const std::vector<std::string> golden_names = names(golden_);
    const std::vector<std::string> target_names = names(target_);
    NameIndex golden_index = index_of(golden_names);
    NameIndex target_index = index_of(target_names);
    for (std::size_t r = 0; r < rules_.rules.size(); ++r) {
      const MapRule& rule = rules_.rules[r];
      if (rule.kind != MapKind::kLeaf || !golden_index.contains(rule.golden) ||
          !target_index.contains(rule.target)) {
        continue;
      }
      const std::int32_t g = golden_index.take(rule.golden);
      const std::int32_t t = target_index.take(rule.target);
      if (g < 0 || t < 0) continue;
      join(g, t);
      translator_->mark_used(r);
    }
  }

  // Equal leaves at equal positions first, hashing only for the rest.
  void match_inside(const Op& golden, const Op& target) {
    const std::uint32_t shorter =
        std::min(golden.record_count, target.record_count);
    std::uint32_t same = 0;
    for (; same < shorter; ++same) {
      const std::int32_t g = as_index(golden.first_record + same);
      const std::int32_t t = as_index(target.first_record + same);
      if (golden_.records[g].leaf != target_.records[t].leaf ||
          !open_golden(g) || !open_target(t)) {
        break;
      }
      join(g, t);
    }
    if (same < golden.record_count && same < target.record_count) {
      match_rest(golden, target, same);
    }
  }

  void match_rest(const Op& golden, const Op& target, std::uint32_t begin) {
    NameIndex leaves(target.record_count - begin);
    for (std::uint32_t i = begin; i < target.record_count; ++i) {
      const std::int32_t t = as_index(target.first_record + i);
      if (open_target(t)) leaves.insert(target_.records[t].leaf, t);
    }
    for (std::uint32_t i = begin; i < golden.record_count; ++i) {
      const std::int32_t g = as_index(golden.first_record + i);
      if (!open_golden(g)) continue;
      const std::string& leaf = golden_.records[g].leaf;
      std::int32_t found = leaves.take(leaf);
      if (found < 0 && translator_ && !leaves.contains(leaf)) {
        const auto text = translator_->replace_text(leaf);
        if (text) found = leaves.take(*text);
      }
      if (found >= 0) join(g, found);
    }
  }

  // Two files of one tensor each: nothing else can be meant.
  void match_only_tensors() {
    std::error_code error;
    if (golden_.records.size() == 1 && target_.records.size() == 1 &&
        golden_.records[0].role == Role::kTensor &&
        target_.records[0].role == Role::kTensor && open_golden(0) &&
        std::filesystem::is_regular_file(golden_.path, error) &&
        std::filesystem::is_regular_file(target_.path, error)) {
      join(0, 0);
    }
  }

  static std::vector<std::int32_t> open(const std::vector<std::int32_t>& of) {
    std::vector<std::int32_t> left;
    for (std::size_t i = 0; i < of.size(); ++i) {
      if (of[i] < 0) left.push_back(as_index(i));
    }
    return left;
  }

  void match_leftovers() {
    const auto golden_left = open(partners_.of_golden);
    const auto target_left = open(partners_.of_target);
    if (golden_left.empty() || target_left.empty()) return;
    std::vector<std::string> target_names;
    target_names.reserve(target_left.size());
    NameIndex index(target_left.size());
    for (const std::int32_t t : target_left) {
      target_names.push_back(target_.name(target_.records[t]));
      index.insert(target_names.back(), t);
    }
    for (const std::int32_t g : golden_left) {
      const std::string name = golden_.name(golden_.records[g]);
      std::int32_t found = index.take(name);
      if (found < 0 && translator_ && !index.contains(name)) {
        const auto text = translator_->replace_text(name);
        if (text) found = index.take(*text);
      }
      if (found >= 0) join(g, found);
    }
  }

  const Trace& golden_;
  const Trace& target_;
  const MapRules& rules_;
  NameTranslator* translator_;
  const OpPartners& ops_;
  RecordPartners partners_;
};

}  // namespace

RecordPartners match_records(const Trace& golden, const Trace& target,
                             const MapRules& rules, NameTranslator* translator,
                             const OpPartners& ops) {
  return RecordMatcher(golden, target, rules, translator, ops).run();
}

}  // namespace assay
