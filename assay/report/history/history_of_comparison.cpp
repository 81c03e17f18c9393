#include "assay/report/history/history_of_comparison.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <utility>

#include "assay/report/row_view.h"

namespace assay {
namespace {

std::string reason_of(const Row& row) {
  if (row.verdict == Verdict::kMatch || row.verdict == Verdict::kEmpty)
    return "";
  if (const Reason* reason = deciding_reason(row)) return reason->text;
  return std::string(missing_text(row));
}

HistoryEntry entry_of(const Row& row) {
  HistoryEntry entry;
  entry.name = row.name();
  entry.verdict = row.verdict;
  entry.how = to_string(row.evidence);
  const double error = row_error(row);
  entry.figure = error < 0 ? std::nan("") : error;
  entry.why = reason_of(row);
  return entry;
}

}  // namespace

HistoryRun history_of(const Comparison& comparison, std::string began) {
  HistoryRun run;
  run.kind = "compare";
  run.began = std::move(began);
  run.golden = comparison.golden_path;
  run.target = comparison.target_path;
  run.command = comparison.command;
  run.verdict = comparison.verdict;
  run.interrupted = comparison.interrupted;
  run.seconds = comparison.seconds;
  std::map<std::pair<std::uint32_t, std::string>, int> seen;
  for (const Row& row : comparison.rows) {
    const Group& group = comparison.groups[row.group];
    HistoryEntry entry = entry_of(row);
    entry.group = fmt::format("step{}/rank{}", group.step, group.rank);
    const int times = ++seen[{row.group, entry.name}];
    if (times > 1) entry.name += fmt::format("#{}", times);
    run.entries.push_back(std::move(entry));
  }
  count_entries(run);
  return run;
}

}  // namespace assay
