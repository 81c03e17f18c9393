// Every run that was ever kept, in one SQLite file: what changed since the
// last one is a question, not an archaeology.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assay/metrics/verdict.h"

namespace assay {

// One thing that a run judged: a case of a conformance module, a record of a
// comparison.
struct HistoryEntry {
  std::string group;  // the module, or "step0/rank1"
  std::string name;   // within its group
  Verdict verdict = Verdict::kIncomplete;
  std::string how;     // "compared", "crashed", "stale", "statistics" ...
  double figure = 0;   // relative L2 error, NaN where there is none
  double seconds = 0;  // 0: not measured
  std::string why;     // one line, "" for a match
};

struct HistoryRun {
  std::int64_t number = 0;  // in the order they were added; the history's own
  std::string kind;         // "conform", "compare"
  std::string began;        // UTC, "2026-11-30T01:02:03Z"
  // Who was compared, without what changes from run to run.
  std::string golden, target;
  std::string golden_version, target_version;
  std::string command;  // repeats the run
  Verdict verdict = Verdict::kIncomplete;
  bool interrupted = false;
  double seconds = 0;
  std::int64_t match = 0, mismatch = 0, incomplete = 0, empty = 0;
  std::vector<HistoryEntry> entries;  // (group, name) occurs once

  std::int64_t total() const { return match + mismatch + incomplete + empty; }
};

// Counts by verdict, from the entries.
void count_entries(HistoryRun& run);

class Database;

// An open history. Writers of several processes wait for each other; every
// run is added completely or not at all. Texts are only ever bound to prepared
// statements. One object is for one thread. Everything throws Error that
// names the file: kUnreadable (absent, locked for 10 s, disk full), kRefused
// (no SQLite, another program's, damaged, or of a newer assay).
class History {
 public:
  enum class Mode {
    kRead,   // must be there
    kWrite,  // created where it is not, with its folder
  };
  History(const std::filesystem::path& path, Mode mode);
  ~History();

  // $ASSAY_HISTORY, else ~/.local/share/assay/history.db. Throws
  // Error{kUsage} where neither variable is set.
  static std::filesystem::path default_path();

  struct Added {
    std::int64_t number = 0;
    bool known = false;  // the very same run was there already
  };
  Added add(const HistoryRun& run);

  // The newest `most` runs, newest first, without entries.
  std::vector<HistoryRun> runs(std::int64_t most) const;
  // With its entries, in order. Throws Error{kUsage} where there is none.
  HistoryRun run(std::int64_t number) const;
  // The newest run; nullopt in an empty history.
  std::optional<std::int64_t> newest() const;
  // The newest run before this one of the same kind and sides.
  std::optional<std::int64_t> previous(std::int64_t number) const;

 private:
  std::unique_ptr<Database> db_;
};

}  // namespace assay
