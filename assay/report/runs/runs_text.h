// Compared training runs as the terminal shows them.
#pragma once

#include <cstddef>
#include <string>

#include "assay/compare/runs/compare_runs.h"

namespace assay {

struct RunsTextOptions {
  bool color = false;
  std::size_t columns = 100;  // to fit tables in; 0: no limit
  bool quiet = false;         // one line a run
};

// The runs, the band and its rule; of each run the verdict and why, and its
// figures with small curves. Ends with a newline. Texts of files are escaped.
std::string render_runs_comparison(const RunsComparison& comparison,
                                   const RunsTextOptions& options = {});

}  // namespace assay
