// The result of the overflow search as the terminal shows it.
#pragma once

#include <cstddef>
#include <string>

#include "assay/compare/overflow/overflow.h"

namespace assay {

struct OverflowTextOptions {
  bool color = false;         // ANSI colours
  std::size_t columns = 100;  // width that names give way to; 0: no limit
  std::size_t limit = 10;     // lines of a list
  bool quiet = false;         // one line
};

// What was looked at, the verdict, the first finding with its operator's
// leaves and what it went on to, counts, the other findings, what came near,
// FP8, what was not looked at, warnings. Ends with a newline. Names and
// messages come from files: they are escaped.
std::string render_overflow(const OverflowReport& report,
                            const OverflowTextOptions& options = {});

}  // namespace assay
