#include "assay/report/terminal_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "assay/base/text.h"
#include "assay/report/display.h"
#include "assay/report/row_view.h"

namespace assay {
namespace {

constexpr std::size_t kColumns = 5;
using Line = std::array<std::string, kColumns>;
constexpr std::size_t kName = 1, kReason = 4;
constexpr std::string_view kGap = "  ";

std::string verdict_cell(const Row& row) {
  std::string text(to_string(row.verdict));
  if (row.origin != Origin::kNone)
    text += " (" + std::string(to_string(row.origin)) + ")";
  return text;
}

std::string figure_cell(const Row& row) {
  const Reason* reason = deciding_reason(row);
  if (reason && row.verdict == Verdict::kMismatch)
    return format_figure(reason->figure);
  const double error = row_error(row);
  return error < 0 ? "-" : format_figure(error);
}

std::string reason_cell(const Row& row) {
  std::string text;
  for (const Reason& reason : row.reasons) {
    if (!text.empty()) text += "; ";
    text += safe_text(reason.text);
  }
  if (text.empty()) text = missing_text(row);
  if (!row.cause.empty()) text += "; " + safe_text(likely_text(row.cause));
  return text;
}

Line line_of(const Row& row) {
  return {verdict_cell(row), safe_text(row.name()),
          std::string(to_string(row.evidence)), figure_cell(row),
          reason_cell(row)};
}

std::array<std::size_t, kColumns> widths_of(const std::vector<Line>& lines,
                                            std::size_t columns) {
  std::array<std::size_t, kColumns> widths{};
  for (const Line& line : lines)
    for (std::size_t i = 0; i < kColumns; ++i)
      widths[i] = std::max(widths[i], display_width(line[i]));
  if (columns == 0) return widths;
  // What the fixed columns leave is shared by name and reason; a name never
  // gets less than 16 columns, even if the line then runs over.
  const std::size_t fixed =
      widths[0] + widths[2] + widths[3] + (kColumns - 1) * kGap.size();
  const std::size_t room = columns > fixed + 32 ? columns - fixed : 32;
  widths[kName] =
      std::min(widths[kName],
               std::max(room / 2, room - std::min(room, widths[kReason])));
  widths[kReason] = room - widths[kName];
  return widths;
}

std::string render(const Line& line, const Row* row,
                   const std::array<std::size_t, kColumns>& widths,
                   const TerminalOptions& options) {
  std::string verdict = pad_right(line[0], widths[0]);
  if (row) verdict = colored(row->verdict, verdict, options.color);
  std::string text =
      verdict + std::string(kGap) +
      pad_right(elide_middle(line[kName], widths[kName]), widths[kName]) +
      std::string(kGap) + pad_right(line[2], widths[2]) + std::string(kGap) +
      pad_right(line[3], widths[3]);
  text += std::string(kGap) + elide_end(line[kReason], widths[kReason]);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::vector<std::size_t> chosen(const Comparison& comparison,
                                const TerminalOptions& options) {
  std::vector<std::size_t> order = worst_first(comparison);
  if (options.all) return order;
  const auto shown = [&](std::size_t i) {
    return comparison.rows[i].verdict == Verdict::kMismatch ||
           comparison.rows[i].verdict == Verdict::kIncomplete;
  };
  order.erase(std::find_if_not(order.begin(), order.end(), shown), order.end());
  order.resize(std::min(order.size(), options.rows));
  return order;
}

std::string more_line(const Comparison& comparison, std::size_t shown,
                      const TerminalOptions& options) {
  const auto bad = static_cast<std::size_t>(comparison.counts.mismatch +
                                            comparison.counts.incomplete);
  if (options.all || bad <= shown) return "";
  return human_count(static_cast<std::int64_t>(bad - shown)) +
         " more, --all shows them\n";
}

}  // namespace

std::string colored(Verdict verdict, std::string_view text, bool color) {
  if (!color) return std::string(text);
  std::string_view code = "\x1b[32m";  // green
  if (verdict == Verdict::kMismatch) code = "\x1b[1;31m";
  if (verdict == Verdict::kIncomplete) code = "\x1b[33m";
  if (verdict == Verdict::kEmpty) code = "\x1b[2m";
  return std::string(code) + std::string(text) + "\x1b[0m";
}

std::string fit(std::string_view text, std::size_t columns) {
  return columns == 0 ? std::string(text) : elide_end(text, columns);
}

std::string terminal_table(const Comparison& comparison,
                           const TerminalOptions& options) {
  const std::vector<std::size_t> order = chosen(comparison, options);
  if (order.empty()) return "";
  std::vector<Line> lines = {
      {"verdict", "name", "evidence", "figure", "reason"}};
  for (const std::size_t i : order)
    lines.push_back(line_of(comparison.rows[i]));
  const auto widths = widths_of(lines, options.columns);
  std::string text = "\n" + render(lines[0], nullptr, widths, options);
  for (std::size_t i = 0; i < order.size(); ++i)
    text += render(lines[i + 1], &comparison.rows[order[i]], widths, options);
  return text + more_line(comparison, order.size(), options);
}

}  // namespace assay
