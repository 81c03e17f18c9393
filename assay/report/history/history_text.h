// A history as the terminal shows it, and as JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "assay/report/history/history_diff.h"

namespace assay {

struct HistoryTextOptions {
  bool color = false;
  std::size_t columns = 100;
  std::size_t entries = 50;  // of each kind of change
  bool all = false;
};

// A line a run, newest first. Everything that a file says is escaped.
std::string render_runs(const std::vector<HistoryRun>& runs,
                        const HistoryTextOptions& options);
// One run: its sides, counts, and every entry that is no match; with `all`
// every entry.
std::string render_history_run(const HistoryRun& run,
                               const HistoryTextOptions& options);
std::string render_diff(const HistoryDiff& diff,
                        const HistoryTextOptions& options);

// docs/json-output.md has the schemas.
std::string runs_json(const std::vector<HistoryRun>& runs);
std::string diff_json(const HistoryDiff& diff);

}  // namespace assay
