#include "assay/compare/perturbation/collection.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "assay/compare/summary.h"

namespace assay::perturbation {
namespace {

Row row_of(const Skipped& skip) {
  Row row;
  row.role = Role::kOutput;
  row.is_tensor = false;
  row.golden.present = row.target.present = true;
  row.golden.name = row.target.name = skip.api;
  row.verdict = skip.verdict;
  Reason reason;
  reason.criterion = "skipped";
  reason.text = fmt::format("{} call{}: {}", skip.calls,
                            skip.calls == 1 ? "" : "s", skip.why);
  reason.note = skip.verdict == Verdict::kEmpty;
  row.reasons.push_back(std::move(reason));
  return row;
}

std::string module_of(const Row& row) {
  for (const Reason& reason : row.reasons)
    if (reason.criterion == kModuleNote) return reason.text;
  return "";
}

Divergence first_of(const Comparison& comparison, std::size_t at) {
  const Row& row = comparison.rows[at];
  Divergence first;
  first.row = at;
  first.name = comparison.groups[row.group].ops[row.op].name;
  first.kind = "born";
  first.input_note = "both calls are given the same inputs";
  if (const Reason* reason = deciding_reason(row)) first.reason = reason->text;
  first.cause = row.cause;
  const std::string module = module_of(row);
  if (!module.empty()) first.call_path.push_back(module);
  return first;
}

}  // namespace

Collection::Collection(const Standard& standard, Mode mode, std::int64_t rank)
    : rank_(rank) {
  comparison_.standard = standard.name();
  comparison_.standard_source = standard.source();
  comparison_.standard_date = standard.date();
  comparison_.subject = Subject::kPerturbed;
  comparison_.golden_path = fmt::format("expected ({})", to_string(mode));
  comparison_.target_path = "the calls";
}

void Collection::step(std::int64_t number) { step_ = number; }

Group& Collection::group() {
  auto& groups = comparison_.groups;
  if (groups.empty() || groups.back().step != step_) {
    Group group;
    group.step = step_;
    group.rank = rank_;
    group.golden_path = comparison_.golden_path;
    group.target_path = comparison_.target_path;
    groups.push_back(std::move(group));
  }
  return groups.back();
}

const Row& Collection::add(Row row, const Place& place) {
  drop_skips();
  Group& into = group();
  if (into.ops.empty() || into.ops.back().name != place.op) {
    OpRow op;
    op.name = place.op;
    op.api = place.api;
    op.first_row = static_cast<std::uint32_t>(comparison_.rows.size());
    op.verdict = row.verdict;
    into.ops.push_back(std::move(op));
  }
  OpRow& op = into.ops.back();
  ++op.row_count;
  if (row.verdict == Verdict::kMismatch) op.verdict = row.verdict;
  row.group = static_cast<std::uint32_t>(comparison_.groups.size() - 1);
  row.op = static_cast<std::uint32_t>(into.ops.size() - 1);
  if (!place.module.empty() && module_of(row).empty()) {
    Reason reason;
    reason.criterion = kModuleNote;
    reason.text = place.module;
    reason.note = true;
    row.reasons.push_back(std::move(reason));
  }
  // Of thousands of calls that are right nobody asks for histograms.
  if (row.stats && row.verdict == Verdict::kMatch) row.stats->detail.reset();
  comparison_.rows.push_back(std::move(row));
  return comparison_.rows.back();
}

void Collection::skip(const std::string& api, const std::string& why,
                      Verdict verdict, std::int64_t calls) {
  Skipped& skip = skips_[{api, why}];
  skip.api = api;
  skip.why = why;
  skip.verdict = verdict;
  skip.calls += calls;
}

void Collection::clear_counts() {
  skips_.clear();
  left_out_ = 0;
}

void Collection::warn(std::string warning) {
  drop_skips();
  comparison_.warnings.push_back(std::move(warning));
}

std::vector<Skipped> Collection::skipped() const {
  std::vector<Skipped> all;
  for (const auto& [_, skip] : skips_) all.push_back(skip);
  return all;
}

void Collection::drop_skips() {
  if (!std::exchange(complete_, false)) return;
  comparison_.rows.resize(own_rows_);
  comparison_.warnings.resize(own_warnings_);
  for (Group& each : comparison_.groups) {
    std::erase_if(each.ops,
                  [&](const OpRow& op) { return op.first_row >= own_rows_; });
  }
}

void Collection::append_skips() {
  own_rows_ = comparison_.rows.size();
  own_warnings_ = comparison_.warnings.size();
  complete_ = true;
  if (left_out_ > 0) {
    comparison_.warnings.push_back(
        fmt::format("{} call{} not in the sample: nothing is said of them",
                    left_out_, left_out_ == 1 ? " is" : "s are"));
  }
  if (skips_.empty()) return;
  Group& into = group();
  for (const auto& [_, skip] : skips_) {
    OpRow op;
    op.name = op.api = skip.api;
    op.first_row = static_cast<std::uint32_t>(comparison_.rows.size());
    op.row_count = 1;
    op.verdict = skip.verdict;
    Row row = row_of(skip);
    row.group = static_cast<std::uint32_t>(comparison_.groups.size() - 1);
    row.op = static_cast<std::uint32_t>(into.ops.size());
    into.ops.push_back(std::move(op));
    comparison_.rows.push_back(std::move(row));
  }
}

Comparison& Collection::mutable_result() {
  drop_skips();
  append_skips();
  summarise(comparison_);
  comparison_.first_divergence.reset();
  const auto& rows = comparison_.rows;
  const auto first = std::find_if(rows.begin(), rows.end(), [](const Row& row) {
    return row.verdict == Verdict::kMismatch;
  });
  if (first != rows.end()) {
    comparison_.first_divergence =
        first_of(comparison_, static_cast<std::size_t>(first - rows.begin()));
  }
  return comparison_;
}

const Comparison& Collection::result() { return mutable_result(); }

}  // namespace assay::perturbation
