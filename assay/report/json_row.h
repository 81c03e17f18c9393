// One row of the JSON report.
#pragma once

#include <string>

#include "assay/compare/comparison.h"

namespace assay {

// Appends the row's object (docs/json-output.md, "rows"). A key whose value is
// unknown or does not apply is left out.
void append_json_row(const Comparison& comparison, const Row& row,
                     std::string& out);

}  // namespace assay
