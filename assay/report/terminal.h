// The comparison as the terminal shows it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "assay/compare/comparison.h"

namespace assay {

struct TerminalOptions {
  bool color = false;         // ANSI colours
  std::size_t columns = 100;  // width to fit tables in; 0: no limit
  std::size_t rows = 10;      // length of the table of the worst rows
  bool all = false;           // every row, matching ones too
  bool quiet = false;         // one line
  bool header = true;         // the first line: what was compared
  // What to do about rows and warnings that are not shown.
  std::string_view more = "--all shows them";
};

// The summary: what was compared, the verdict, the first divergence, counts,
// why rows are incomplete, warnings, the worst rows. Ends with a newline.
// Names and messages come from files: they are escaped.
std::string render_terminal(const Comparison& comparison,
                            const TerminalOptions& options = {});

}  // namespace assay
