// A conformance run as the terminal shows it.
#pragma once

#include <cstddef>
#include <string>

#include "assay/conform/report/api_coverage.h"
#include "assay/conform/run_result.h"

namespace assay::conform {

struct RunTextOptions {
  bool color = false;         // ANSI colours
  std::size_t columns = 100;  // width to fit the table in; 0: no limit
  std::size_t cases = 100;    // that are no match and told in full
  bool all = false;           // every one of them
  bool quiet = false;         // one line
};

// What ran, the verdict and the counts; a line a module; then every case that
// is no match: parameters, why, log, the command that repeats it. Stale and
// missing goldens, what was not run and what the worker lacks stand apart from
// the failures, counted by their reason. Ends with a newline. Names and
// messages come from files and workers: they are escaped.
std::string render_run(const RunResult& run, const ApiCoverage* api,
                       const RunTextOptions& options = {});

}  // namespace assay::conform
