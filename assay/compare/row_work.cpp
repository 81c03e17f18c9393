#include "assay/compare/row_work.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "assay/base/text.h"

namespace assay {
namespace {

constexpr std::size_t kMaxValueText = 200;

bool is_empty(const SideFacts& facts) {
  return checked_numel(facts.shape) == std::int64_t{0};
}

}  // namespace

void RowWork::conclude(Verdict verdict, Reason reason) {
  row.verdict = verdict;
  row.reasons.push_back(std::move(reason));
}

void RowWork::conclude(Judgement judgement) {
  row.verdict = judgement.verdict;
  add(std::move(judgement.reasons));
}

void RowWork::add(std::vector<Reason> reasons) {
  if (row.reasons.empty()) {
    row.reasons = std::move(reasons);
    return;
  }
  std::move(reasons.begin(), reasons.end(), std::back_inserter(row.reasons));
}

void RowWork::overrule(std::vector<Reason> reasons) {
  row.verdict = Verdict::kMismatch;
  row.reasons.insert(row.reasons.begin(),
                     std::make_move_iterator(reasons.begin()),
                     std::make_move_iterator(reasons.end()));
}

bool RowWork::settled_by_contract() {
  std::vector<Reason> notes;
  auto judgement =
      standard.judge_contract(row.golden.facts, row.target.facts, notes);
  if (judgement) {
    conclude(*std::move(judgement));
    add(std::move(notes));
    return true;
  }
  add(std::move(notes));
  if (!is_empty(row.golden.facts)) return false;
  conclude(Verdict::kEmpty,
           make_reason("empty", "0 elements: equal, no evidence", true));
  return true;
}

std::string shown(const std::string& value) {
  std::string text = printable(
      std::string_view(value).substr(0, std::min(value.size(), kMaxValueText)));
  if (value.size() > kMaxValueText) text += "...";
  return text;
}

bool has_statistics(const TensorStatistics& stats) {
  return stats.max || stats.min || stats.mean || stats.norm;
}

bool has_facts(const Record& record) {
  return record.file.empty() || record.facts.dtype ||
         !record.facts.dtype_text.empty();
}

}  // namespace assay
