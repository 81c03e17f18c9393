// Whether runs were deterministic, as the terminal shows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "assay/compare/determinism/determinism.h"

namespace assay {

struct DeterminismTextOptions {
  bool color = false;   // ANSI colours
  bool quiet = false;   // one line
  std::string program;  // what was run: "train.py"
  double seconds = 0;   // of running and comparing
  std::string again;    // the command that shows every row, "" for none
};

// What was run, the verdict, where the runs part and why, counts, warnings.
// Ends with a newline. Names come from files: they are escaped.
std::string render_determinism(const DeterminismReport& report,
                               const DeterminismTextOptions& options);

// "deterministic", "not deterministic", "another start" (what came in
// differs), "incomplete".
std::string determinism_word(const DeterminismReport& report);

}  // namespace assay
