// The flag --color: auto, always or never.
#pragma once

#include <string>

#include "assay/cli/args.h"

namespace assay {

struct ColorFlag {
  std::string when = "auto";

  void declare(Args& args);
  // Auto: where the standard output is a terminal and NO_COLOR is not set.
  // Throws Error{kUsage}.
  bool wanted() const;
};

// Prints and flushes. Throws Error{kUnreadable} where that fails: a report cut
// short by a full disk is none.
void print_text(const std::string& text);

}  // namespace assay
