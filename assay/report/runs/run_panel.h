// The points that the page draws of one figure of all runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "assay/compare/runs/compare_runs.h"

namespace assay {

// By index of a step; NaN where a run has no value, or there is no band.
struct RunPanel {
  Figure figure = Figure::kLoss;
  bool judged = false;
  std::size_t logged = 0;  // steps, of which these are drawn
  std::vector<std::int64_t> steps;
  std::vector<std::vector<double>> runs;         // as RunsComparison::runs
  std::vector<std::vector<double>> differences;  // |target - reference|
  std::vector<double> low, high;                 // empty: no band
};

// Steps that any run logged, of those that were asked for; where they are more
// than `most`, in equal parts the extremes of every curve are kept, so that no
// peak disappears.
RunPanel run_panel(const RunsComparison& comparison, Figure figure,
                   std::size_t most);

}  // namespace assay
