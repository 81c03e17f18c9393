// The folder of a run: what is finished, one line each, and workers' logs.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "assay/conform/line_log.h"
#include "assay/precheck/judge_pair.h"

namespace assay::precheck {

struct JournalEntry {
  std::vector<JudgedRow> rows;
  bool generated = false;
};

// Thread-safe.
class CallJournal {
 public:
  // In "<folder>/journal.jsonl"; starts anew, or goes on. Throws Error{kUsage}
  // where the folder holds anything else, Error{kUnreadable} from the disk.
  CallJournal(const std::filesystem::path& folder, bool resume);

  std::optional<JournalEntry> take(const std::string& key);
  void add(const std::string& key, const JournalEntry& entry);

 private:
  void read(const std::string& line, const std::string& origin);
  std::map<std::string, JournalEntry> kept_;  // before what fills it
  std::mutex mutex_;
  conform::LineLog log_;
};

}  // namespace assay::precheck
