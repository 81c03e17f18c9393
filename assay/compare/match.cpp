#include "assay/compare/match.h"

#include <optional>

#include "assay/compare/match_ops.h"
#include "assay/compare/match_records.h"
#include "assay/compare/name_translator.h"

namespace assay {
namespace {

// Puts operators and rows into the order of the report.
class Arranger {
 public:
  Arranger(const Trace& golden, const Trace& target, const OpPartners& ops,
           const RecordPartners& records)
      : golden_(golden),
        target_(target),
        partners_(ops),
        records_(records),
        place_of_target_(target.ops.size(), -1) {}

  Matching run() {
    result_.ops.reserve(golden_.ops.size());
    result_.pairs.reserve(golden_.records.size());
    group_by_anchor();
    emit_after(0);
    place_of_golden_.reserve(golden_.ops.size());
    for (std::size_t g = 0; g < golden_.ops.size(); ++g) {
      emit_golden(static_cast<std::int32_t>(g));
      emit_after(g + 1);
    }
    for (OpPair& op : result_.ops) op.parent = parent_of(op);
    return std::move(result_);
  }

 private:
  // Operators only the target has, listed behind the golden operator that
  // precedes them there (anchor 0: before all).
  void group_by_anchor() {
    first_after_.assign(golden_.ops.size() + 2, 0);
    std::vector<std::int32_t> anchor(target_.ops.size(), -1);
    std::int32_t current = 0;
    for (std::size_t t = 0; t < target_.ops.size(); ++t) {
      if (partners_.of_target[t] >= 0) {
        current = partners_.of_target[t] + 1;
      } else {
        anchor[t] = current;
        ++first_after_[current + 1];
      }
    }
    for (std::size_t i = 1; i < first_after_.size(); ++i) {
      first_after_[i] += first_after_[i - 1];
    }
    alone_.resize(first_after_.back());
    std::vector<std::int32_t> next(first_after_);
    for (std::size_t t = 0; t < anchor.size(); ++t) {
      if (anchor[t] < 0) continue;
      alone_[next[anchor[t]]++] = static_cast<std::int32_t>(t);
    }
  }

  void emit_after(std::size_t anchor) {
    for (std::int32_t i = first_after_[anchor]; i < first_after_[anchor + 1];
         ++i) {
      OpPair op = begin_op(-1, alone_[i]);
      add_unpaired_of_target(op);
      place_of_target_[alone_[i]] =
          static_cast<std::int32_t>(result_.ops.size());
      result_.ops.push_back(op);
    }
  }

  void emit_golden(std::int32_t g) {
    OpPair op = begin_op(g, partners_.of_golden[g]);
    op.by = partners_.by[g];
    const Op& golden = golden_.ops[g];
    for (std::uint32_t i = 0; i < golden.record_count; ++i) {
      const auto record = static_cast<std::int32_t>(golden.first_record + i);
      result_.pairs.push_back({record, records_.of_golden[record]});
      ++op.count;
    }
    if (op.target >= 0) add_unpaired_of_target(op);
    place_of_golden_.push_back(static_cast<std::int32_t>(result_.ops.size()));
    result_.ops.push_back(op);
  }

  OpPair begin_op(std::int32_t golden, std::int32_t target) const {
    OpPair op;
    op.golden = golden;
    op.target = target;
    op.first = static_cast<std::uint32_t>(result_.pairs.size());
    return op;
  }

  void add_unpaired_of_target(OpPair& op) {
    const Op& target = target_.ops[op.target];
    for (std::uint32_t i = 0; i < target.record_count; ++i) {
      const auto record = static_cast<std::int32_t>(target.first_record + i);
      if (records_.of_target[record] >= 0) continue;
      result_.pairs.push_back({-1, record});
      ++op.count;
    }
  }

  std::int32_t parent_of(const OpPair& op) const {
    if (op.golden >= 0) {
      const std::int32_t parent = golden_.ops[op.golden].parent;
      return parent < 0 ? -1 : place_of_golden_[parent];
    }
    const std::int32_t parent = target_.ops[op.target].parent;
    if (parent < 0) return -1;
    const std::int32_t partner = partners_.of_target[parent];
    return partner >= 0 ? place_of_golden_[partner] : place_of_target_[parent];
  }

  const Trace& golden_;
  const Trace& target_;
  const OpPartners& partners_;
  const RecordPartners& records_;
  std::vector<std::int32_t> place_of_golden_, place_of_target_;
  std::vector<std::int32_t> first_after_, alone_;
  Matching result_;
};

}  // namespace

Matching match_traces(const Trace& golden, const Trace& target,
                      const MapRules& rules, bool fuzzy) {
  std::optional<NameTranslator> translator;
  if (!rules.rules.empty()) translator.emplace(rules, golden, target);
  NameTranslator* names = translator ? &*translator : nullptr;
  const OpPartners ops = match_ops(golden, target, rules, names, fuzzy);
  const RecordPartners records =
      match_records(golden, target, rules, names, ops);
  Matching result = Arranger(golden, target, ops, records).run();
  if (names) result.rule_used = names->used();
  return result;
}

}  // namespace assay
