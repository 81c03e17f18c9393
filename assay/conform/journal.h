// The finished cases of a run, one line each as they come: what --resume
// starts from after a run that was stopped or died.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "assay/conform/line_log.h"
#include "assay/conform/manifest.h"
#include "assay/conform/run_result.h"

namespace assay::conform {

// Everything that decides about the result of a case: spec, golden, target.
// `command`: the target's, with files_of() it.
std::string journal_key(const Manifest& golden, const Manifest& target,
                        const std::string& command);

// Thread-safe.
class Journal {
 public:
  // Starts anew, or goes on where `resume` and a file is there: lines of
  // another version, or that were cut short, are passed over. Throws Error.
  Journal(const std::filesystem::path& path, bool resume);

  // The result of that key. None that the worker ended badly in: those are
  // worth another try.
  std::optional<CaseResult> find(const std::string& key) const;
  // Throws Error{kUnreadable} when the disk is full.
  void add(const std::string& key, const CaseResult& result);

 private:
  void read(const std::string& line, const std::string& origin);
  std::map<std::string, CaseResult> kept_;  // before what fills it
  LineLog log_;
};

}  // namespace assay::conform
