// A conformance run as one HTML page that needs nothing else.
#pragma once

#include <filesystem>

#include "assay/conform/report/api_coverage.h"
#include "assay/conform/run_result.h"

namespace assay::conform {

// Style, script and data are in the page: it opens from disk, offline. The
// data are the JSON report; names are data, never markup. Replaces `path` only
// when complete. Throws Error.
void write_run_html(const RunResult& run, const ApiCoverage* api,
                    const std::filesystem::path& path);

}  // namespace assay::conform
