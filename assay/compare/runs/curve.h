// One figure of a run beside the reference's: aligned, then judged.
#pragma once

#include <vector>

#include "assay/compare/runs/compare_runs.h"

namespace assay {

// `references`: the reference, then its seeds. nullopt where neither the
// reference nor the target has the figure.
std::optional<RunCurve> compare_curve(
    const std::vector<const RunLog*>& references, const RunLog& target,
    Figure figure, const RunsOptions& options);

}  // namespace assay
