// Compared training runs as one HTML page that needs nothing else.
#pragma once

#include <filesystem>

#include "assay/compare/runs/compare_runs.h"

namespace assay {

// The data are the JSON report and the points to draw; of long runs the
// extremes are kept. Replaces `path` only when complete. Throws Error.
void write_runs_html(const RunsComparison& comparison,
                     const std::filesystem::path& path);

}  // namespace assay
