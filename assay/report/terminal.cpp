#include "assay/report/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "assay/base/text.h"
#include "assay/core/value_text.h"
#include "assay/report/display.h"
#include "assay/report/row_view.h"
#include "assay/report/terminal_table.h"
#include "assay/report/wording.h"

namespace assay {
namespace {

// "step0" for one step, "3 steps" for more.
std::string numbered(const std::set<std::int64_t>& numbers,
                     std::string_view word) {
  if (numbers.size() == 1) return fmt::format("{}{}", word, *numbers.begin());
  return plural(static_cast<std::int64_t>(numbers.size()), word);
}

// "3.9 + 3.9 GB", or "900 MB + 3.9 GB" where the units differ.
std::string both_sizes(std::int64_t golden, std::int64_t target) {
  const std::string a = human_bytes(golden), b = human_bytes(target);
  const std::size_t unit = a.rfind(' ');
  if (unit != std::string::npos && b.ends_with(a.substr(unit)))
    return a.substr(0, unit) + " + " + b;
  return a + " + " + b;
}

std::string header(const Comparison& c) {
  std::set<std::int64_t> steps, ranks;
  for (const Group& group : c.groups) {
    steps.insert(group.step);
    ranks.insert(group.rank);
  }
  const Wording& words = wording(c.subject);
  std::string line;
  if (!words.flows && c.groups.size() < 2) steps = ranks = {};
  if (!steps.empty()) line = numbered(steps, "step") + ", ";
  if (!ranks.empty()) line += numbered(ranks, "rank") + ", ";
  line += plural(c.counts.total(), words.record);
  if (c.golden_bytes > 0 || c.target_bytes > 0)
    line += ", " + both_sizes(c.golden_bytes, c.target_bytes);
  return line + ", " + human_seconds(c.seconds) + "\n";
}

std::string place(const Comparison& c, const Row& row) {
  if (c.groups.size() < 2) return "";
  const Group& group = c.groups[row.group];
  std::set<std::int64_t> steps;
  for (const Group& g : c.groups) steps.insert(g.step);
  if (steps.size() < 2) return fmt::format("  (rank {})", group.rank);
  return fmt::format("  (step {}, rank {})", group.step, group.rank);
}

// Why nothing is called a divergence, in the words of the verdict.
std::string summary_without_divergence(const Comparison& c) {
  const std::string_view record = wording(c.subject).record;
  switch (c.verdict) {
    case Verdict::kMatch:
      return human_count(c.counts.match) + " of " +
             plural(c.counts.total(), record) + " compared, all agree";
    case Verdict::kIncomplete:
      if (c.counts.total() == 0) return "nothing was compared";
      if (c.counts.incomplete == 0) return "nothing but empty tensors";
      return fmt::format("{} of {} could not be compared",
                         human_count(c.counts.incomplete),
                         plural(c.counts.total(), record));
    case Verdict::kEmpty:
      return "nothing but empty tensors";
    case Verdict::kMismatch:
      break;
  }
  return plural(c.counts.mismatch, record) +
         (c.counts.mismatch == 1 ? " differs" : " differ");
}

// argument: what differs is no tensor.
std::string kind_text(const Divergence& d, bool argument) {
  const std::string note = safe_text(d.input_note);
  if (d.kind == "born")
    return "born here: " + (note.empty() ? "its inputs agree" : note) +
           (note.starts_with("no input") ? ", its output differs"
                                         : ", its output does not");
  const std::string tail = note.empty() ? "" : ": " + note;
  if (d.kind == "input" && argument) return "it is called otherwise";
  if (d.kind == "input")
    return note.empty() ? "an input that no compared operator produced differs"
                        : "an input differs" + tail;
  if (d.kind == "parameter")
    return "a parameter differs before it is used" + tail;
  if (d.kind == "inherited")
    return "inherited: " + (note.empty() ? "an input already differs" : note) +
           (note.find("agree") != note.npos ? ", errors added up" : "");
  if (d.kind == "tensor") return note;
  if (d.kind == "undetermined")
    return "its output differs, its inputs were not compared" + tail;
  return safe_text(d.kind) + tail;
}

std::string figures_text(const Row& row) {
  const ErrorStats& s = *row.stats;
  if (s.max_abs_index < 0) return "";
  return fmt::format(
      "max abs {} at {}: golden {}, target {}; bias {}, alpha {:.6g}",
      format_figure(s.max_abs), place_text(row, s.max_abs_index),
      value_text(s.judged_dtype, s.golden_at_max_abs),
      value_text(s.judged_dtype, s.target_at_max_abs), format_figure(s.bias),
      s.alpha);
}

std::string statistics_text(std::string_view side,
                            const TensorStatistics& stats) {
  std::string text(side);
  const auto add = [&](std::string_view name,
                       const std::optional<double>& value) {
    if (value) text += fmt::format("  {} {}", name, format_double(*value));
  };
  add("max", stats.max);
  add("min", stats.min);
  add("mean", stats.mean);
  add("norm", stats.norm);
  return text;
}

// The lines below the verdict, one fact each.
std::vector<std::string> divergence_lines(const Comparison& c,
                                          const Divergence& d) {
  const bool known = d.row < c.rows.size();
  std::vector<std::string> lines;
  if (wording(c.subject).flows)
    lines.push_back(
        kind_text(d, known && c.rows[d.row].evidence == Evidence::kValue));
  if (known) {
    const Row& row = c.rows[d.row];
    if (row.name() != d.name) lines.push_back(safe_text(row.name()));
    if (!d.reason.empty()) lines.push_back(safe_text(d.reason));
    if (row.stats) {
      lines.push_back(figures_text(row));
    } else if (row.evidence == Evidence::kStatistics) {
      lines.push_back(statistics_text("golden", row.golden.stats));
      lines.push_back(statistics_text("target", row.target.stats));
    }
  }
  lines.push_back(safe_text(likely_text(d.cause)));
  lines.push_back(safe_text(user_frame(d.stack)));
  if (!d.again.empty()) lines.push_back("again: " + safe_text(d.again));
  std::erase(lines, "");
  return lines;
}

std::string verdict_block(const Comparison& c, const TerminalOptions& o) {
  const std::string word = colored(c.verdict, to_string(c.verdict), o.color);
  if (!c.first_divergence) {
    return word + "   " + summary_without_divergence(c) + "\n";
  }
  const Divergence& d = *c.first_divergence;
  std::string text = word + "   " + std::string(wording(c.subject).first) +
                     ": " + safe_text(d.name);
  if (d.row < c.rows.size()) text += place(c, c.rows[d.row]);
  text += "\n";
  for (const std::string& line : divergence_lines(c, d))
    text += "  " + line + "\n";
  return text;
}

std::string origins_text(const Counts& counts) {
  std::string text;
  const auto add = [&](std::int64_t count, std::string_view word) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + human_count(count) + " " +
            std::string(word);
  };
  add(counts.born, "born");
  add(counts.input_differs, "input differs");
  add(counts.parameter_differs, "parameter differs");
  add(counts.undetermined, "undetermined");
  add(counts.inherited, "inherited");
  return text.empty() ? "" : " (" + text + ")";
}

std::string counts_line(const Comparison& c) {
  const Counts& counts = c.counts;
  const bool origins = wording(c.subject).flows;
  return fmt::format("match {}   mismatch {}{}   incomplete {}   empty {}\n",
                     human_count(counts.match), human_count(counts.mismatch),
                     origins ? origins_text(counts) : "",
                     human_count(counts.incomplete), human_count(counts.empty));
}

// Why an incomplete row was not compared, without what is particular to it.
std::string incomplete_cause(const Row& row, const Wording& words) {
  const Reason* reason = deciding_reason(row);
  const std::string missing = missing_text(row, words);
  const bool told = reason && reason->criterion == "unreadable";
  if (!missing.empty() && !told) return missing;
  if (!reason && !row.reasons.empty()) reason = &row.reasons.front();
  if (!reason) return "no reason recorded";
  if (reason->criterion != "random") return reason->text;
  // "12 of 64 elements differ, but the operator draws random numbers: ..."
  constexpr std::string_view kBut = ", but ";
  const std::size_t but = reason->text.find(kBut);
  return but == std::string::npos ? reason->text
                                  : reason->text.substr(but + kBut.size());
}

// Ends with a name, which gives way where the line is longer than `columns`.
std::string named_line(const std::string& text, const std::string& name,
                       std::size_t columns) {
  const std::size_t used = display_width(text);
  if (columns < used + 16) return text + name + "\n";
  return text + elide_middle(name, columns - used) + "\n";
}

// "not compared: 8 records, missing in the target; first a.b.input.0".
std::string incomplete_lines(const Comparison& c, const TerminalOptions& o) {
  if (c.counts.incomplete == 0) return "";
  const Wording& words = wording(c.subject);
  struct Cause {
    std::int64_t count = 0;
    std::size_t first = 0;
  };
  std::map<std::string, Cause> causes;
  for (std::size_t i = 0; i < c.rows.size(); ++i) {
    if (c.rows[i].verdict != Verdict::kIncomplete) continue;
    Cause& cause = causes[incomplete_cause(c.rows[i], words)];
    if (cause.count++ == 0) cause.first = i;
  }
  std::vector<std::pair<std::string, Cause>> sorted(causes.begin(),
                                                    causes.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](auto& a, auto& b) {
    return a.second.count > b.second.count;
  });
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, sorted.size()); ++i) {
    const auto& [cause, where] = sorted[i];
    text += named_line("not compared: " + plural(where.count, words.record) +
                           ", " + safe_text(cause) + "; first ",
                       safe_text(c.rows[where.first].name()), o.columns);
  }
  if (sorted.size() > kShown)
    text +=
        fmt::format("not compared: {} more causes\n", sorted.size() - kShown);
  return text;
}

std::string warning_lines(const Comparison& c, const TerminalOptions& o) {
  std::string text;
  if (c.interrupted)
    text += "interrupted: the rows that were not reached are incomplete\n";
  constexpr std::size_t kShown = 10;
  const std::size_t shown =
      o.all ? c.warnings.size() : std::min(kShown, c.warnings.size());
  for (std::size_t i = 0; i < shown; ++i)
    text += "warning: " + safe_text(c.warnings[i]) + "\n";
  if (shown < c.warnings.size())
    text += fmt::format("warning: {} more, {}\n", c.warnings.size() - shown,
                        o.more);
  return text;
}

std::string quiet_line(const Comparison& c, const TerminalOptions& o) {
  std::string line = colored(c.verdict, to_string(c.verdict), o.color);
  if (c.first_divergence)
    line.append(" ").append(safe_text(c.first_divergence->name));
  return line.append("   ").append(counts_line(c));
}

}  // namespace

std::string render_terminal(const Comparison& comparison,
                            const TerminalOptions& options) {
  if (options.quiet) return quiet_line(comparison, options);
  return (options.header ? header(comparison) : std::string()) +
         verdict_block(comparison, options) + counts_line(comparison) +
         incomplete_lines(comparison, options) +
         warning_lines(comparison, options) +
         terminal_table(comparison, options);
}

}  // namespace assay
