// The diff of two environments as a terminal shows it: likely culprits first.
#pragma once

#include <cstddef>
#include <string>

#include "assay/compare/comparison.h"

namespace assay::env {

struct DiffTextOptions {
  bool color = false;
  bool all = false;           // every row, what is the same too
  bool quiet = false;         // one line
  std::size_t limit = 12;     // settings shown
  std::size_t columns = 100;  // of a line; 0: any length
};

// `diff` is what diff_snapshots() gave. Ends with a newline; names and values
// come from files and are escaped.
std::string render_diff(const Comparison& diff,
                        const DiffTextOptions& options = {});

}  // namespace assay::env
