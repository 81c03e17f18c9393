#include "assay/report/csv.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>

#include "assay/base/atomic_file.h"
#include "assay/base/text_out.h"
#include "assay/report/columns.h"
#include "assay/report/ordered_writer.h"

namespace assay {
namespace {

bool is_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument &&
         end == text.data() + text.size();
}

// A spreadsheet evaluates cells that start so, a tab or CR before included.
bool looks_like_formula(std::string_view text) {
  if (text.empty()) return false;
  switch (text[0]) {
    case '=':
    case '@':
    case '\t':
    case '\r':
      return true;
    case '+':
    case '-':
      return !is_number(text);
    default:
      return false;
  }
}

class CsvSink : public CellSink {
 public:
  explicit CsvSink(std::string& out) : out_(out) {}

  void end_row() {
    out_.push_back('\n');
    first_ = true;
  }
  void word(std::string_view ours) override { next().append(ours); }
  void words(std::string_view ours, int count) override {
    Run& run = runs_[static_cast<std::size_t>(count) % runs_.size()];
    if (run.word != ours || run.count != count) run = Run(ours, count);
    next().append(run.text);
  }
  void list(std::string_view ours) override {
    const bool quote = ours.find(',') != std::string_view::npos;
    next().append(quote ? "\"" : "").append(ours).append(quote ? "\"" : "");
  }
  void text(std::string_view theirs) override {
    const bool formula = looks_like_formula(theirs);
    if (!formula && plain_prefix(theirs) == theirs.size()) {
      next().append(theirs);
      return;
    }
    Escaped& cell = escaped_[theirs.size() % escaped_.size()];
    if (cell.source != theirs) escape(theirs, formula, cell);
    next().append(cell.text);
  }
  void number(double value) override { append_double(next(), value); }
  void integer(std::int64_t value) override { append_int(next(), value); }
  void percent(double value) override {
    append_double(next(), value);
    out_.push_back('%');
  }

 private:
  static bool needs_quotes(char c) {
    return c == ',' || c == '"' || c == '\r' || c == '\n';
  }
  std::string& next() {
    if (!first_) out_.push_back(',');
    first_ = false;
    return out_;
  }
  // A cell that had to be escaped or quoted: messages and stacks repeat.
  struct Escaped {
    std::string source, text;
  };
  static void escape(std::string_view theirs, bool formula, Escaped& cell) {
    std::string text = formula ? "'" : "";
    append_utf8(text, theirs, /*escape_controls=*/true);
    cell.source = theirs;
    cell.text.clear();
    append_quoted(cell.text, text);
  }
  static void append_quoted(std::string& out, std::string_view text) {
    if (std::none_of(text.begin(), text.end(), needs_quotes)) {
      out.append(text);
      return;
    }
    out.push_back('"');
    for (std::size_t from = 0;;) {
      const std::size_t at = text.find('"', from);
      out.append(text.substr(from, at - from));
      if (at == std::string_view::npos) break;
      out.append("\"\"");
      from = at + 1;
    }
    out.push_back('"');
  }

  // The text of several cells alike: most of a row that was not compared.
  struct Run {
    Run() = default;
    Run(std::string_view what, int times) : word(what), count(times) {
      for (int i = 0; i < times; ++i)
        text.append(i == 0 ? "" : ",").append(what);
    }
    std::string word, text;
    int count = 0;
  };

  std::string& out_;
  std::array<Run, 16> runs_;
  std::array<Escaped, 16> escaped_;
  bool first_ = true;
};

std::string header_line(ColumnMode mode) {
  std::string line;
  CsvSink sink(line);
  for (const std::string_view name : report_columns(mode)) sink.word(name);
  sink.end_row();
  return line;
}

}  // namespace

void write_csv(const Comparison& comparison,
               const std::filesystem::path& path) {
  const ColumnMode mode = column_mode(comparison);
  AtomicFile file(path);
  file.write(header_line(mode));
  write_ordered(file, static_cast<std::int64_t>(comparison.rows.size()),
                [&](std::int64_t begin, std::int64_t end, std::string& out) {
                  CsvSink sink(out);
                  for (std::int64_t i = begin; i < end; ++i) {
                    emit_cells(comparison, comparison.rows[i], mode, sink);
                    sink.end_row();
                  }
                });
  file.commit();
}

}  // namespace assay
