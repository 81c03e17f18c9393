// The details csv of an API pre-check: msprobe's accuracy_checking_details and
// our details.csv, which are of one form.
//
// 23 columns, found by their (Chinese) headings in any order; columns that are
// not msprobe's are passed over. A cell that holds nothing, "N/A" or "None" is
// no figure; "nan", "inf" and "-inf" are figures.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/precheck/detail/detail.h"

namespace assay::precheck {

// The heading line, behind a byte order mark, as spreadsheets want it.
std::string details_csv_heading();
// One row. A figure that does not apply is a space, as msprobe has it; numbers
// are the shortest that round-trip, where msprobe's have 14 decimals.
void append_detail_row(std::string& out, const Detail& detail);

// A whole file; replaces `path` only when complete. Throws Error.
void write_details_csv(const std::filesystem::path& path,
                       std::span<const Detail> details);

// Reads one. Hostile bytes are refused: throws Error{kRefused}, naming `where`,
// the line and the column, for a heading twice or missing, a row of another
// number of cells, a cell that is no number, or more than `kMaxDetailRows`
// rows. `elements` and the zero flags of the rows are not known.
std::vector<Detail> parse_details_csv(std::string_view bytes,
                                      const std::string& where);
inline constexpr std::size_t kMaxDetailRows = 10'000'000;

// The file; of a folder, its details.csv, which is what `assay precheck run
// --out` leaves there.
std::filesystem::path details_csv_path(const std::filesystem::path& argument);

// Throws Error{kUnreadable} too.
std::vector<Detail> read_details_csv(const std::filesystem::path& argument);

}  // namespace assay::precheck
