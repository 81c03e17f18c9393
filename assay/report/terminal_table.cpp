#include "assay/report/terminal_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "assay/base/text.h"
#include "assay/report/display.h"
#include "assay/report/row_view.h"
#include "assay/report/wording.h"

namespace assay {
namespace {

enum Column { kVerdict, kPlace, kName, kEvidence, kError, kReason, kColumns };
using Line = std::array<std::string, kColumns>;
using Widths = std::array<std::size_t, kColumns>;
constexpr std::string_view kGap = "  ";

std::string verdict_cell(const Comparison& c, const Row& row) {
  if (wording(c.subject).flows && row.origin != Origin::kNone)
    return std::string(to_string(row.origin));
  return std::string(to_string(row.verdict));
}

// "0/3", step and rank; "" where there is one of each.
std::string place_cell(const Comparison& c, const Row& row) {
  if (c.groups.size() < 2) return "";
  const Group& group = c.groups[row.group];
  return std::to_string(group.step) + "/" + std::to_string(group.rank);
}

// Normalised L2, or what stands for it in a dump of statistics.
std::string error_cell(const Row& row) {
  const double error = row_error(row);
  return error < 0 ? "-" : format_figure(error);
}

// Shown only where some row of the table rests on less than its elements.
std::string evidence_cell(const Row& row, bool shown) {
  return shown ? std::string(to_string(row.evidence)) : "";
}

std::string reason_cell(const Comparison& c, const Row& row) {
  std::string text;
  for (const Reason& reason : row.reasons) {
    if (!text.empty()) text += "; ";
    text += safe_text(reason.text);
  }
  if (text.empty()) text = missing_text(row, wording(c.subject));
  if (!row.cause.empty()) text += "; " + safe_text(likely_text(row.cause));
  return text;
}

Line line_of(const Comparison& c, const Row& row, bool evidence) {
  return {verdict_cell(c, row),  place_cell(c, row),
          safe_text(row.name()), evidence_cell(row, evidence),
          error_cell(row),       reason_cell(c, row)};
}

Line header_line(const Comparison& c, bool evidence) {
  return {"verdict", c.groups.size() < 2 ? "" : "step/rank",
          "name",    evidence ? "evidence" : "",
          "rel. L2", "reason"};
}

Widths widths_of(const std::vector<Line>& lines, std::size_t columns) {
  Widths widths{};
  for (const Line& line : lines)
    for (std::size_t i = 0; i < kColumns; ++i)
      widths[i] = std::max(widths[i], display_width(line[i]));
  if (columns == 0) return widths;
  // What the other columns leave is shared by name and reason; together they
  // never get less than 32 columns, even if the line then runs over.
  std::size_t fixed = 0;
  for (const Column column : {kVerdict, kPlace, kEvidence, kError})
    fixed += widths[column] + (widths[column] > 0 ? kGap.size() : 0);
  fixed += kGap.size();
  const std::size_t room = columns > fixed + 32 ? columns - fixed : 32;
  const std::size_t left = room - std::min(room, widths[kReason]);
  widths[kName] = std::min(widths[kName], std::max(room * 3 / 5, left));
  widths[kReason] = room - widths[kName];
  return widths;
}

std::string render(const Line& line, const Row* row, const Widths& widths,
                   const TerminalOptions& options) {
  std::string text;
  for (std::size_t i = 0; i < kColumns; ++i) {
    if (widths[i] == 0) continue;
    if (!text.empty()) text += kGap;
    std::string cell = pad_right(i == kName ? elide_middle(line[i], widths[i])
                                            : elide_end(line[i], widths[i]),
                                 widths[i]);
    const bool tinted = i == kVerdict && row;
    text += tinted ? colored(row->verdict, cell, options.color) : cell;
  }
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
  return human_count(static_cast<std::int64_t>(bad - shown)) + " more, " +
         std::string(options.more) + "\n";
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

std::string terminal_table(const Comparison& comparison,
                           const TerminalOptions& options) {
  const std::vector<std::size_t> order = chosen(comparison, options);
  if (order.empty()) return "";
  const bool evidence =
      wording(comparison.subject).flows &&
      std::any_of(order.begin(), order.end(), [&](std::size_t i) {
        return comparison.rows[i].evidence != Evidence::kTensor;
      });
  std::vector<Line> lines = {header_line(comparison, evidence)};
  for (const std::size_t i : order)
    lines.push_back(line_of(comparison, comparison.rows[i], evidence));
  const Widths widths = widths_of(lines, options.columns);
  std::string text = "\n" + render(lines[0], nullptr, widths, options);
  for (std::size_t i = 0; i < order.size(); ++i)
    text += render(lines[i + 1], &comparison.rows[order[i]], widths, options);
  return text + more_line(comparison, order.size(), options);
}

}  // namespace assay
