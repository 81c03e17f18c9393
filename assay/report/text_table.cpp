#include "assay/report/text_table.h"

#include <algorithm>
#include <utility>

#include "assay/report/display.h"
#include "assay/report/terminal_table.h"

namespace assay {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastText = 12;

}  // namespace

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)) {}

void TextTable::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = safe_text(cell);
  cells.resize(columns_.size());
  lines_.push_back({std::move(cells), false, Verdict::kMatch});
}

void TextTable::row(Verdict verdict, std::vector<std::string> cells) {
  row(std::move(cells));
  lines_.back().tinted = true;
  lines_.back().verdict = verdict;
}

std::vector<std::size_t> TextTable::widths(std::size_t width) const {
  std::vector<std::size_t> widths(columns_.size());
  for (const Line& line : lines_)
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(line.cells[i]));
  std::size_t total = 0;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == 0) continue;
    widths[i] = std::max(widths[i], display_width(columns_[i].title));
    total += widths[i] + (total == 0 ? 0 : kGap);
  }
  while (width != 0 && total > width) {
    std::size_t widest = columns_.size();
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (columns_[i].align == Align::kLeft &&
          (widest == columns_.size() || widths[i] > widths[widest]))
        widest = i;
    if (widest == columns_.size() || widths[widest] <= kLeastText) break;
    --widths[widest];
    --total;
  }
  return widths;
}

std::string TextTable::render(const Line& line,
                              const std::vector<std::size_t>& widths,
                              bool color) const {
  std::string text;
  bool first = true;
  for (std::size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!first) text.append(kGap, ' ');
    const std::string cell = elide_middle(line.cells[i], widths[i]);
    const std::size_t room = widths[i] - display_width(cell);
    if (columns_[i].align == Align::kRight) text.append(room, ' ');
    text += first && line.tinted ? colored(line.verdict, cell, color) : cell;
    if (columns_[i].align == Align::kLeft) text.append(room, ' ');
    first = false;
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string TextTable::render(std::size_t width, bool color) const {
  if (lines_.empty()) return "";
  const std::vector<std::size_t> wide = widths(width);
  Line header{{}, false, Verdict::kMatch};
  for (const Column& column : columns_) header.cells.push_back(column.title);
  std::string text = render(header, wide, color);
  for (const Line& line : lines_) text += render(line, wide, color);
  return text;
}

}  // namespace assay
