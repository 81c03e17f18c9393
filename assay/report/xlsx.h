// The comparison as an Excel workbook.
#pragma once

#include <filesystem>

#include "assay/compare/comparison.h"

namespace assay {

// A sheet "Summary", then the columns of report_columns() in "Rows", "Rows 2",
// ... (a sheet holds 1,048,576 lines), coloured by verdict. Cells longer than
// Excel's 32,767 characters are cut and say so. Replaces `path` only when
// complete. Throws Error.
void write_xlsx(const Comparison& comparison,
                const std::filesystem::path& path);

}  // namespace assay
