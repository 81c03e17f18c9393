#include "assay/env/diff.h"

#include <algorithm>

#include "assay/base/text.h"
#include "assay/compare/summary.h"
#include "assay/env/diff_rows.h"
#include "assay/env/value_equal.h"

namespace assay::env {
namespace {

constexpr std::string_view kOther = "other";
constexpr std::string_view kOtherWhy =
    "not known to matter, and not known not to";

// What is shown earlier within a group.
int order_of(const Row& row) {
  switch (row.verdict) {
    case Verdict::kMismatch:
      return 0;
    case Verdict::kIncomplete:
      return 1;
    case Verdict::kEmpty:
      return 2;
    case Verdict::kMatch:
      break;
  }
  return 3;
}

bool has_anything(const Snapshot& snapshot, Section section) {
  if (snapshot[section].collected) return true;
  switch (section) {
    case Section::kWeights:
      return !snapshot.weights.empty();
    case Section::kData:
      return !snapshot.batches.empty();
    case Section::kRandom:
      return snapshot.draw_count > 0;
    default:
      return false;
  }
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines)
    text += (text.empty() ? "" : "; ") + line;
  return text.empty() ? "its snapshot does not say why" : text;
}

// One side has the section, the other has not.
void add_gap(const DiffSides& sides, Section section, DiffRows& rows) {
  const bool golden = has_anything(sides.golden, section);
  const Value there{Kind::kText, "collected", ""};
  Row row = value_row(golden ? &there : nullptr, golden ? nullptr : &there);
  const Snapshot& lacks = golden ? sides.target : sides.golden;
  judge(row, Verdict::kIncomplete, kNotCollected,
        std::string(to_string(section)) + " not collected in the " +
            (golden ? "target" : "golden") + ": " +
            joined(lacks[section].missing));
  row.is_tensor = false;
  rows.add(section, "collected", std::move(row));
}

// Asked for, and had by neither side.
void add_gap_of_both(const DiffSides& sides, Section section, DiffRows& rows) {
  const auto& golden = sides.golden[section].missing;
  const auto& target = sides.target[section].missing;
  if (golden.empty() && target.empty()) return;
  const Value none{Kind::kUnknown, "not collected", ""};
  Row row = value_row(&none, &none);
  judge(row, Verdict::kIncomplete, kNotCollected,
        std::string(to_string(section)) + " not compared, neither side has " +
            "them: " + joined(golden.empty() ? target : golden));
  rows.add(section, "collected", std::move(row));
}

// What a side knows that it has not read.
void add_left_out(const DiffSides& sides, Section section, DiffRows& rows) {
  const auto& golden = sides.golden[section].missing;
  const auto& target = sides.target[section].missing;
  if (golden.empty() && target.empty()) return;
  const Value some{Kind::kUnknown, "not all read", ""};
  Row row = value_row(golden.empty() ? nullptr : &some,
                      target.empty() ? nullptr : &some);
  judge(row, Verdict::kIncomplete, kNotCollected,
        joined(golden.empty() || golden == target ? target : golden));
  rows.add(section, "left_out", std::move(row));
}

void add_section(const DiffSides& sides, Section section, DiffRows& rows) {
  const bool golden = has_anything(sides.golden, section);
  const bool target = has_anything(sides.target, section);
  if (!golden && !target) return add_gap_of_both(sides, section, rows);
  if (golden != target) return add_gap(sides, section, rows);
  add_left_out(sides, section, rows);
  diff_values(sides, section, rows);
  if (section == Section::kWeights) diff_weights(sides, rows);
  if (section == Section::kData) diff_batches(sides, rows);
  if (section == Section::kRandom) diff_draws(sides, rows);
}

void set_first(Comparison& result) {
  for (std::size_t i = 0; i < result.rows.size(); ++i) {
    const Row& row = result.rows[i];
    if (row.verdict != Verdict::kMismatch) continue;
    Divergence first;
    first.row = i;
    first.name = row.name();
    first.kind = "setting";
    if (const Reason* reason = deciding_reason(row))
      first.reason = reason->text;
    first.cause = row.cause;
    result.first_divergence = std::move(first);
    return;
  }
}

}  // namespace

bool DiffRows::wanted(Section section) const {
  return options_.only.empty() ||
         std::find(options_.only.begin(), options_.only.end(), section) !=
             options_.only.end();
}

void DiffRows::add(Section section, std::string_view key, Row row) {
  const std::string name =
      std::string(to_string(section)) + "." + std::string(key);
  for (const std::string& pattern : options_.ignore)
    if (glob_match(pattern, name)) return;
  const std::size_t rank = table_.rank(section, key);
  if (row.golden.present) row.golden.name = name;
  if (row.target.present) row.target.name = name;
  if (row.verdict == Verdict::kMismatch && row.cause.empty())
    row.cause = rank < table_.groups().size() ? table_.groups()[rank].why
                                              : std::string(kOtherWhy);
  rows_.push_back({rank, rows_.size(), std::move(row)});
}

void DiffRows::finish(Comparison& result) {
  std::sort(rows_.begin(), rows_.end(), [](const Ranked& a, const Ranked& b) {
    if (a.rank != b.rank) return a.rank < b.rank;
    const int x = order_of(a.row), y = order_of(b.row);
    return x != y ? x < y : a.order < b.order;
  });
  Group& group = result.groups.emplace_back();
  std::size_t rank = table_.groups().size() + 1;
  for (Ranked& each : rows_) {
    if (group.ops.empty() || each.rank != rank) {
      rank = each.rank;
      OpRow& op = group.ops.emplace_back();
      op.name = rank < table_.groups().size() ? table_.groups()[rank].name
                                              : std::string(kOther);
      op.first_row = static_cast<std::uint32_t>(result.rows.size());
      op.verdict = each.row.verdict;  // the worst comes first
    }
    each.row.op = static_cast<std::uint32_t>(group.ops.size() - 1);
    ++group.ops.back().row_count;
    result.rows.push_back(std::move(each.row));
  }
}

Row value_row(const Value* golden, const Value* target) {
  Row row;
  row.is_tensor = false;
  row.evidence = Evidence::kValue;
  const auto fill = [](const Value* value, RowSide& side) {
    if (value == nullptr) return;
    side.present = true;
    side.value = shown(*value);
    side.file = value->from;
  };
  fill(golden, row.golden);
  fill(target, row.target);
  return row;
}

void judge(Row& row, Verdict verdict, std::string_view criterion,
           std::string text) {
  row.verdict = verdict;
  const bool note = verdict == Verdict::kMatch || verdict == Verdict::kEmpty;
  if (text.empty()) return;
  Reason reason;
  reason.criterion = criterion;
  reason.text = std::move(text);
  reason.note = note;
  row.reasons.push_back(std::move(reason));
}

Comparison diff_snapshots(const Snapshot& golden, const Snapshot& target,
                          const RankTable& table, const DiffOptions& options) {
  const DiffSides sides{golden, target, table, vendor_of(table, golden),
                        vendor_of(table, target)};
  Comparison result;
  result.subject = Subject::kSettings;
  result.golden_path = golden.path;
  result.target_path = target.path;
  result.standard = "environment";
  result.standard_source = "specs/environment/ranks.yaml";
  result.standard_date = table.date();
  DiffRows rows(table, options);
  for (std::size_t i = 0; i < kSectionNames.size(); ++i) {
    const auto section = static_cast<Section>(i);
    if (!rows.wanted(section)) continue;
    add_section(sides, section, rows);
  }
  rows.finish(result);
  summarise(result);
  set_first(result);
  return result;
}

}  // namespace assay::env
