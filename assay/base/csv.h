// Comma-separated values as spreadsheets and Python write them: text on its
// way out, and rows on their way in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// Whether a spreadsheet would evaluate a cell of this text.
bool looks_like_formula(std::string_view text);

// One cell: quoted where it must be, as valid UTF-8 without control characters
// (append_utf8), and what looks like a formula behind an apostrophe.
void append_csv_text(std::string& out, std::string_view text);

// The cell's text without the apostrophe that keeps a spreadsheet from
// evaluating it.
std::string_view without_formula_guard(std::string_view cell);

// Reads row after row of bytes that stay alive. A byte order mark is skipped,
// and so are blank lines; lines end in LF or CR LF; quoted cells may hold
// commas, line breaks and doubled quotes. Not thread-safe.
class CsvReader {
 public:
  // `where` names the bytes in errors.
  CsvReader(std::string_view bytes, std::string where);

  // The next row's cells, valid until the next call; false at the end. Throws
  // Error{kRefused}, naming the line, where a quote is not closed, text follows
  // a closing quote, or a row has more than kMaxCells cells.
  bool next(std::vector<std::string_view>& cells);

  // Where the row that next() gave begins, "details.csv:12".
  std::string place() const;

  static constexpr std::size_t kMaxCells = 4096;

 private:
  [[noreturn]] void refuse(std::string_view what) const;
  std::string_view quoted_cell();
  std::string_view plain_cell();

  std::string_view bytes_;
  std::string where_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1, row_line_ = 1;
  std::deque<std::string> unescaped_;  // cells of this row with quotes in them
};

}  // namespace assay
