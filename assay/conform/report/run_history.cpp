#include "assay/conform/report/run_history.h"

#include <cmath>

#include "assay/conform/report/run_view.h"

namespace assay::conform {
namespace {

std::string identity(const Side& side) {
  return side.device.empty() ? side.implementation
                             : side.implementation + ", " + side.device;
}

HistoryEntry entry_of(const ModuleResult& module, const CaseResult& c) {
  HistoryEntry entry;
  entry.group = module.module;
  entry.name = c.subject.id;
  entry.verdict = c.verdict;
  entry.how = to_string(c.ending);
  const Check* worst = worst_check(c);
  entry.figure = worst ? worst->norm_l2 : std::nan("");
  entry.seconds = c.seconds;
  entry.why = why(c);
  return entry;
}

}  // namespace

HistoryRun history_of(const RunResult& run) {
  HistoryRun kept;
  kept.kind = "conform";
  kept.began = run.began;
  kept.golden = identity(run.golden);
  kept.target = identity(run.target);
  kept.golden_version = run.golden.version;
  kept.target_version = run.target.version;
  kept.command = run.command;
  kept.verdict = run.verdict;
  kept.interrupted = run.interrupted;
  kept.seconds = run.seconds;
  for (const ModuleResult& module : run.modules)
    for (const CaseResult& c : module.cases)
      kept.entries.push_back(entry_of(module, c));
  count_entries(kept);
  return kept;
}

}  // namespace assay::conform
