// The result of a pre-check as the terminal shows it.
#pragma once

#include <cstddef>
#include <string>

#include "assay/precheck/run.h"

namespace assay::precheck {

struct TextOptions {
  bool color = false;         // ANSI colours
  std::size_t columns = 100;  // width to fit tables in; 0: no limit
  std::size_t rows = 20;      // of the table of APIs
  bool all = false;           // every API, matching ones too; every reason
  bool quiet = false;         // one line
};

// Who was judged by whom, the verdict with the first call that fails, counts
// of APIs and calls, the APIs that fail, worst first, then why calls were not
// checked, warnings. Ends with a newline. Names come from files: they are
// escaped.
std::string render_text(const RunResult& result, const TextOptions& options);

}  // namespace assay::precheck
