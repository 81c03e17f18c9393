// The reports of a conformance run, as report, run and loop write them.
#pragma once

#include <string>
#include <vector>

#include "assay/cli/args.h"
#include "assay/cli/color_flag.h"
#include "assay/cli/history_flag.h"
#include "assay/conform/run_result.h"

namespace assay {

class RunReports {
 public:
  void declare(Args& args);
  // Refuses before any work what could not be written or read: throws Error.
  // `inputs` are not to be overwritten.
  void check(const std::vector<std::string>& inputs) const;
  // Prints the run and writes what was asked for. Throws Error.
  void write(const conform::RunResult& run, bool quiet) const;
  // --json -: nothing else may be printed there.
  bool takes_stdout() const { return json_ == "-"; }

 private:
  std::string html_, json_, junit_, api_;
  HistoryFlag history_;
  ColorFlag color_;
  bool all_ = false;
};

}  // namespace assay
