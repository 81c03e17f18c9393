// A table of safe text for a terminal, columns as wide as their cells.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "assay/metrics/verdict.h"

namespace assay {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  // What gives way where lines would be too long, in this order: the ends of
  // kYield, down to 8 columns; whole columns, the last one first, but for kCut;
  // the middle of texts of kCut, down to 12.
  enum class Tight { kCut, kYield, kDrop };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    Tight tight = Tight::kCut;
  };

  explicit TextTable(std::vector<Column> columns);

  // One cell a column; control characters are escaped here. The verdict
  // colours the first cell.
  void row(std::vector<std::string> cells);
  void row(Verdict verdict, std::vector<std::string> cells);

  // Header and rows, each ended by a newline. Columns without a single cell
  // are left out. Lines keep to `width` columns (0: any length) as far as
  // columns give way.
  std::string render(std::size_t width, bool color) const;

 private:
  struct Line {
    std::vector<std::string> cells;
    bool tinted;
    Verdict verdict;
  };
  std::vector<std::size_t> natural_widths() const;
  std::vector<std::size_t> widths(std::size_t width) const;
  bool narrow(std::vector<std::size_t>& widths, Tight which) const;
  std::string render(const Line& line, const std::vector<std::size_t>& widths,
                     bool color) const;

  std::vector<Column> columns_;
  std::vector<Line> lines_;
};

}  // namespace assay
