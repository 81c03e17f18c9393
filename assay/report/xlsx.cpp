#include "assay/report/xlsx.h"

#include <xlsxwriter.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/atomic_file.h"
#include "assay/base/error.h"
#include "assay/base/text_out.h"
#include "assay/report/columns.h"

namespace assay {
namespace {

constexpr lxw_row_t kSheetLines = 1048576;
constexpr std::size_t kCellBytes = 32000;  // below Excel's 32,767 characters
constexpr std::string_view kCut = " ... (cut)";

// A text cell as XML can hold it: valid UTF-8, no control characters.
std::string cell_text(std::string_view text) {
  std::string out;
  append_utf8(out, text.substr(0, kCellBytes), /*escape_controls=*/true);
  // Escapes may have made it longer than a cell again.
  if (out.size() > kCellBytes || text.size() > kCellBytes) {
    out.resize(std::min(out.size(), kCellBytes));
    while (!out.empty() &&
           (static_cast<unsigned char>(out.back()) & 0xc0) == 0x80)
      out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0x80)
      out.pop_back();
    out.append(kCut);
  }
  return out;
}

// Closes the workbook whatever happens; libxlsxwriter frees it in close only.
class Workbook {
 public:
  explicit Workbook(const std::filesystem::path& path) {
    lxw_workbook_options options = {};
    options.constant_memory = LXW_TRUE;
    book_ = workbook_new_opt(path.c_str(), &options);
    if (book_ == nullptr)
      throw Error(Code::kInternal, path.string() + ": cannot make a workbook");
  }
  ~Workbook() {
    if (book_ != nullptr) workbook_close(book_);
  }
  Workbook(const Workbook&) = delete;
  Workbook& operator=(const Workbook&) = delete;

  lxw_workbook* get() const { return book_; }
  void close(const std::filesystem::path& path) {
    const lxw_error error = workbook_close(book_);
    book_ = nullptr;
    if (error != LXW_NO_ERROR)
      throw Error(Code::kUnreadable,
                  path.string() + ": cannot write: " + lxw_strerror(error));
  }

 private:
  lxw_workbook* book_ = nullptr;
};

struct Formats {
  lxw_format* bold = nullptr;
  std::array<lxw_format*, 4> verdicts{};  // by Verdict; null for a match

  explicit Formats(lxw_workbook* book) {
    bold = workbook_add_format(book);
    format_set_bold(bold);
    const auto fill = [&](Verdict verdict, lxw_color_t color) {
      lxw_format* const format = workbook_add_format(book);
      format_set_bg_color(format, color);
      verdicts[static_cast<std::size_t>(verdict)] = format;
    };
    fill(Verdict::kMismatch, 0xF8D7D3);
    fill(Verdict::kIncomplete, 0xFCEBC5);
    fill(Verdict::kEmpty, 0xE7E6E6);
  }
};

// Writes one row's cells into a sheet.
class SheetSink : public CellSink {
 public:
  SheetSink(lxw_worksheet* sheet, lxw_row_t row, lxw_format* format)
      : sheet_(sheet), row_(row), format_(format) {}

  void word(std::string_view ours) override { string(std::string(ours)); }
  void words(std::string_view ours, int count) override {
    for (int i = 0; i < count; ++i) word(ours);
  }
  void list(std::string_view ours) override { word(ours); }
  void text(std::string_view theirs) override { string(cell_text(theirs)); }
  void number(double value) override {
    if (std::isfinite(value)) {
      worksheet_write_number(sheet_, row_, column_++, value, format_);
      return;
    }
    std::string spelled;
    append_double(spelled, value);
    string(spelled);
  }
  void integer(std::int64_t value) override {
    number(static_cast<double>(value));
  }
  void percent(double value) override {
    std::string spelled;
    append_double(spelled, value);
    string(spelled + "%");
  }

 private:
  void string(const std::string& value) {
    worksheet_write_string(sheet_, row_, column_++, value.c_str(), format_);
  }

  lxw_worksheet* sheet_;
  lxw_row_t row_;
  lxw_format* format_;
  lxw_col_t column_ = 0;
};

// Two columns: what, and its value.
class SummarySheet {
 public:
  SummarySheet(lxw_workbook* book, lxw_format* bold)
      : sheet_(workbook_add_worksheet(book, "Summary")), bold_(bold) {
    worksheet_set_column(sheet_, 0, 0, 22, nullptr);
    worksheet_set_column(sheet_, 1, 1, 110, nullptr);
  }

  void line(const char* what, std::string_view value) {
    worksheet_write_string(sheet_, row_, 0, what, bold_);
    worksheet_write_string(sheet_, row_++, 1, cell_text(value).c_str(),
                           nullptr);
  }
  void line(const char* what, std::int64_t value) {
    worksheet_write_string(sheet_, row_, 0, what, bold_);
    worksheet_write_number(sheet_, row_++, 1, static_cast<double>(value),
                           nullptr);
  }

 private:
  lxw_worksheet* sheet_;
  lxw_format* bold_;
  lxw_row_t row_ = 0;
};

void write_summary(const Comparison& c, lxw_workbook* book,
                   const Formats& formats) {
  SummarySheet sheet(book, formats.bold);
  sheet.line("Verdict", to_string(c.verdict));
  if (c.first_divergence) {
    const Divergence& d = *c.first_divergence;
    sheet.line("First divergence", d.name);
    sheet.line("Kind", d.kind);
    sheet.line("Reason", d.reason);
    sheet.line("Cause", d.cause);
    sheet.line("Again", d.again);
  }
  sheet.line("Match", c.counts.match);
  sheet.line("Mismatch", c.counts.mismatch);
  sheet.line("Born", c.counts.born);
  sheet.line("Inherited", c.counts.inherited);
  sheet.line("Incomplete", c.counts.incomplete);
  sheet.line("Empty", c.counts.empty);
  sheet.line("Golden (Bench)", c.golden_path);
  sheet.line("Target (NPU)", c.target_path);
  sheet.line("Standard", c.standard + " " + c.standard_date);
  sheet.line("Standard source", c.standard_source);
  for (const std::string& warning : c.warnings) sheet.line("Warning", warning);
}

lxw_worksheet* add_row_sheet(lxw_workbook* book, const Formats& formats,
                             const std::vector<std::string_view>& columns,
                             std::size_t number, std::size_t lines) {
  const std::string name =
      number == 1 ? "Rows" : "Rows " + std::to_string(number);
  lxw_worksheet* const sheet = workbook_add_worksheet(book, name.c_str());
  worksheet_set_column(sheet, 0, 1, 48, nullptr);
  worksheet_set_column(sheet, 2, static_cast<lxw_col_t>(columns.size() - 1), 14,
                       nullptr);
  worksheet_freeze_panes(sheet, 1, 1);
  worksheet_autofilter(sheet, 0, 0, static_cast<lxw_row_t>(lines),
                       static_cast<lxw_col_t>(columns.size() - 1));
  SheetSink header(sheet, 0, formats.bold);
  for (const std::string_view column : columns) header.word(column);
  return sheet;
}

void write_rows(const Comparison& c, lxw_workbook* book,
                const Formats& formats) {
  const ColumnMode mode = column_mode(c);
  const auto columns = report_columns(mode);
  constexpr std::size_t kRows = kSheetLines - 1;  // without the header
  const std::size_t sheets =
      std::max<std::size_t>(1, (c.rows.size() + kRows - 1) / kRows);
  for (std::size_t i = 0; i < sheets; ++i) {
    const std::size_t begin = i * kRows;
    const std::size_t end = std::min(c.rows.size(), begin + kRows);
    lxw_worksheet* const sheet =
        add_row_sheet(book, formats, columns, i + 1, end - begin);
    for (std::size_t r = begin; r < end; ++r) {
      const Row& row = c.rows[r];
      SheetSink sink(sheet, static_cast<lxw_row_t>(r - begin + 1),
                     formats.verdicts[static_cast<std::size_t>(row.verdict)]);
      emit_cells(c, row, mode, sink);
    }
  }
}

}  // namespace

void write_xlsx(const Comparison& comparison,
                const std::filesystem::path& path) {
  AtomicFile file(path);
  Workbook book(file.temporary_path());
  const Formats formats(book.get());
  write_summary(comparison, book.get(), formats);
  write_rows(comparison, book.get(), formats);
  book.close(path);
  file.commit();
}

}  // namespace assay
