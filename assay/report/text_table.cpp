#include "assay/report/text_table.h"

#include <algorithm>
#include <utility>

#include "assay/report/display.h"
#include "assay/report/terminal_table.h"

namespace assay {
namespace {

constexpr std::size_t kGap = 2;
constexpr std::size_t kLeastText = 12;
constexpr std::size_t kLeastYield = 8;

std::size_t line_width(const std::vector<std::size_t>& widths) {
  std::size_t total = 0;
  for (const std::size_t width : widths)
    if (width != 0) total += width + (total == 0 ? 0 : kGap);
  return total;
}

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

std::vector<std::size_t> TextTable::natural_widths() const {
  std::vector<std::size_t> widths(columns_.size());
  for (const Line& line : lines_)
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], display_width(line.cells[i]));
  for (std::size_t i = 0; i < widths.size(); ++i)
    if (widths[i] != 0)
      widths[i] = std::max(widths[i], display_width(columns_[i].title));
  return widths;
}

// Takes one from the widest column of text of that kind; false where all are at
// their least.
bool TextTable::narrow(std::vector<std::size_t>& widths, Tight which) const {
  const std::size_t least = which == Tight::kYield ? kLeastYield : kLeastText;
  std::size_t widest = widths.size();
  for (std::size_t i = 0; i < widths.size(); ++i)
    if (columns_[i].align == Align::kLeft && columns_[i].tight == which &&
        widths[i] > least &&
        (widest == widths.size() || widths[i] > widths[widest]))
      widest = i;
  if (widest == widths.size()) return false;
  --widths[widest];
  return true;
}

std::vector<std::size_t> TextTable::widths(std::size_t width) const {
  std::vector<std::size_t> widths = natural_widths();
  const auto too_wide = [&] {
    return width != 0 && line_width(widths) > width;
  };
  while (too_wide() && narrow(widths, Tight::kYield)) continue;
  for (std::size_t i = columns_.size(); i-- > 0 && too_wide();)
    if (columns_[i].tight != Tight::kCut) widths[i] = 0;
  while (too_wide() && narrow(widths, Tight::kCut)) continue;
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
    const std::string cell = columns_[i].tight == Tight::kYield
                                 ? elide_end(line.cells[i], widths[i])
                                 : elide_middle(line.cells[i], widths[i]);
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
