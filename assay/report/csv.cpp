#include "assay/report/csv.h"

#include <array>
#include <string>
#include <string_view>

#include "assay/base/atomic_file.h"
#include "assay/base/csv.h"
#include "assay/base/text_out.h"
#include "assay/report/columns.h"
#include "assay/report/ordered_writer.h"

namespace assay {
namespace {

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
    if (!looks_like_formula(theirs) && plain_prefix(theirs) == theirs.size()) {
      next().append(theirs);
      return;
    }
    Escaped& cell = escaped_[theirs.size() % escaped_.size()];
    if (cell.source != theirs) {
      cell.source = theirs;
      cell.text.clear();
      append_csv_text(cell.text, theirs);
    }
    next().append(cell.text);
  }
  void number(double value) override { append_double(next(), value); }
  void integer(std::int64_t value) override { append_int(next(), value); }
  void percent(double value) override {
    append_double(next(), value);
    out_.push_back('%');
  }

 private:
  std::string& next() {
    if (!first_) out_.push_back(',');
    first_ = false;
    return out_;
  }
  // A cell that had to be escaped or quoted: messages and stacks repeat.
  struct Escaped {
    std::string source, text;
  };

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
