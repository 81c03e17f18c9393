// The table of rows below the terminal's summary.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "assay/compare/comparison.h"
#include "assay/report/terminal.h"

namespace assay {

// `text` in the colour of the verdict, or as it is.
std::string colored(Verdict verdict, std::string_view text, bool color);

// Verdict (of a mismatch: its origin), name, evidence, the figure that decided
// and the reason of the worst rows; step and rank where there are several.
// Without `all` only what is no match, at most `rows` of it, and a line that
// says how many more there are. "" when there is nothing to show.
std::string terminal_table(const Comparison& comparison,
                           const TerminalOptions& options);

}  // namespace assay
