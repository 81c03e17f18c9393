// The comparison as the compact columnar JSON that the HTML page carries.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"

namespace assay {

// Rows the page shows: all of them up to `limit`; beyond it every row that is
// no match and as many of the first matches as there is room for.
std::vector<std::size_t> html_rows(const Comparison& comparison,
                                   std::size_t limit);

// Columns and their codes are those html/data.js reads. Strings are stored once. Figures have six significant digits, which a page
// shows at most; the json report has them whole.
std::string html_data(const Comparison& comparison,
                      const std::vector<std::size_t>& rows);

}  // namespace assay
