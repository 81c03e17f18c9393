// The flag --history: where a run is kept.
#pragma once

#include <functional>
#include <string>

#include "assay/cli/args.h"
#include "assay/report/history/history.h"

namespace assay {

struct HistoryFlag {
  std::string file;  // "" where it was not given

  void declare(Args& args);
  // What can be refused before the work is. Throws Error.
  void check() const;
  // Adds the run, which is made only where the flag was given. Returns the
  // line that says so, "" without the flag.
  std::string add(const std::function<HistoryRun()>& make) const;
};

// The file that a word names: "default" is History::default_path().
std::filesystem::path history_path(const std::string& file);

}  // namespace assay
