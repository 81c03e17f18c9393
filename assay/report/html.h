// The comparison as one HTML page that needs nothing else.
#pragma once

#include <filesystem>

#include "assay/compare/comparison.h"

namespace assay {

// Style, script, Chart.js and data are in the page: it opens from disk,
// offline. Names are data, never markup. A comparison of more than 400,000
// rows keeps every row that is no match and says how many matches it left out.
// Replaces `path` only when complete. Throws Error.
void write_html(const Comparison& comparison,
                const std::filesystem::path& path);

}  // namespace assay
