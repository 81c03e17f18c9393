// The comparison as csv: msprobe's columns, then ours.
#pragma once

#include <filesystem>

#include "assay/compare/comparison.h"

namespace assay {

// RFC 4180 with LF line ends, UTF-8 without a byte order mark. The columns are
// those of report_columns(); a text cell that a spreadsheet would take for a
// formula starts with an apostrophe. Replaces `path` only when complete. Rows
// are formatted in parallel. Throws Error.
void write_csv(const Comparison& comparison, const std::filesystem::path& path);

}  // namespace assay
