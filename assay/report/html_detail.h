// What the HTML page's detail pane knows of a row beyond its columns.
#pragma once

#include <string>

#include "assay/compare/comparison.h"

namespace assay {

// A figure with six significant digits; null for NaN, "inf" and "-inf" quoted.
void append_figure(std::string& out, double value);

// Whether the row has anything to say there: all rows but plain matches, and
// matches with notes, values or digests. `histograms`: matches that have a
// histogram too.
bool has_html_detail(const Row& row, bool histograms);

// Appends the row's object, as html/detail.js reads it.
void append_html_detail(const Row& row, std::string& out);

}  // namespace assay
