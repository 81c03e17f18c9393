// Rows of a comparison back from the lines of a RowJournal.
#pragma once

#include <filesystem>

#include "assay/compare/perturbation/collection.h"
#include "assay/conform/value.h"

namespace assay::conform {

// A row of the JSON report (docs/json-output.md) with all that reports show of
// it; its group and operator are 0. Throws Error{kRefused} for what the report
// does not write.
Row row_from_json(const Value& value);

// Adds what a journal holds. A last line that was cut short, as by the end of
// the process, is passed over; any other that cannot be read makes a row that
// is incomplete. Throws Error{kUnreadable} where there is no file.
void read_row_journal(const std::filesystem::path& path,
                      perturbation::Collection& into);

}  // namespace assay::conform
