#include "assay/report/history/history_text.h"

#include <fmt/format.h>

#include <cmath>

#include "assay/base/text.h"
#include "assay/report/display.h"
#include "assay/report/terminal_table.h"
#include "assay/report/text_table.h"

namespace assay {
namespace {

using Align = TextTable::Align;
constexpr std::string_view kNothing = "nothing changed\n";

std::string side(const std::string& name, const std::string& version) {
  return version.empty() ? name : name + " " + version;
}

std::string name_of(const HistoryEntry& entry) {
  return safe_text(entry.group + "/" + entry.name);
}

std::string verdict_text(const HistoryRun& run, bool color) {
  return colored(run.verdict, to_string(run.verdict), color) +
         (run.interrupted ? " (interrupted)" : "");
}

std::string counts_text(const HistoryRun& run) {
  return fmt::format("match {}   mismatch {}   incomplete {}   empty {}",
                     human_count(run.match), human_count(run.mismatch),
                     human_count(run.incomplete), human_count(run.empty));
}

// " (crashed)": how it ended, where that says more than the verdict.
std::string how(const HistoryEntry& entry) {
  if (entry.verdict != Verdict::kIncomplete || entry.how == "compared")
    return "";
  return " (" + safe_text(entry.how) + ")";
}

std::string ratio_text(double ratio) {
  return std::isfinite(ratio) ? fmt::format("{:.1f}x", ratio) : "was exact";
}

std::string change_line(const HistoryChange& c, bool color) {
  switch (c.change) {
    case Change::kWorse:
      return fmt::format("  {}   rel. L2 {} -> {} ({})\n", name_of(c.after),
                         format_figure(c.before.figure),
                         format_figure(c.after.figure), ratio_text(c.ratio));
    case Change::kSlower:
      return fmt::format("  {}   {} -> {} ({})\n", name_of(c.after),
                         human_seconds(c.before.seconds),
                         human_seconds(c.after.seconds), ratio_text(c.ratio));
    case Change::kGone:
      return fmt::format("  {}   was {}\n", name_of(c.before),
                         to_string(c.before.verdict));
    default:
      break;
  }
  std::string text = "  " + name_of(c.after) + "   ";
  if (c.change != Change::kNew)
    text += fmt::format("{}{} -> ", to_string(c.before.verdict), how(c.before));
  text += colored(c.after.verdict, to_string(c.after.verdict), color) +
          how(c.after);
  if (!c.after.why.empty()) text += ": " + safe_text(c.after.why);
  return text + "\n";
}

constexpr Change kChanges[] = {
    Change::kNewlyFailing, Change::kNotCompared, Change::kFixed, Change::kWorse,
    Change::kSlower,       Change::kNew,         Change::kGone};

std::string changes_of(const HistoryDiff& diff, Change change,
                       const HistoryTextOptions& options) {
  const std::int64_t total = diff.count(change);
  if (total == 0) return "";
  std::string text =
      fmt::format("\n{} {}\n", to_string(change), human_count(total));
  std::int64_t shown = 0;
  for (const HistoryChange& c : diff.changes) {
    if (c.change != change) continue;
    if (shown == static_cast<std::int64_t>(options.entries) && !options.all)
      break;
    text += change_line(c, options.color);
    ++shown;
  }
  if (shown < total)
    text += fmt::format("  {} more, --all shows them\n",
                        human_count(total - shown));
  return text;
}

std::string change_of(const char* what, const std::string& before,
                      const std::string& after) {
  if (before == after) return "";
  return fmt::format("{} {} -> {}\n", what, safe_text(before),
                     safe_text(after));
}

std::string diff_head(const HistoryDiff& diff, bool color) {
  std::string text =
      fmt::format("golden {}; target {}\n", safe_text(diff.after.golden),
                  safe_text(diff.after.target));
  for (const HistoryRun* run : {&diff.before, &diff.after})
    text +=
        fmt::format("run {}, {}: {}   {}\n", run->number, safe_text(run->began),
                    verdict_text(*run, color), counts_text(*run));
  const HistoryRun &a = diff.before, &b = diff.after;
  return text +
         change_of("golden", side(a.golden, a.golden_version),
                   side(b.golden, b.golden_version)) +
         change_of("target", side(a.target, a.target_version),
                   side(b.target, b.target_version));
}

}  // namespace

std::string render_runs(const std::vector<HistoryRun>& runs,
                        const HistoryTextOptions& options) {
  if (runs.empty()) return "no run yet\n";
  TextTable table({{"verdict"},
                   {"run", Align::kRight},
                   {"began", Align::kRight},
                   {"kind"},
                   {"match", Align::kRight},
                   {"differ", Align::kRight},
                   {"incompl.", Align::kRight},
                   {"golden"},
                   {"target"}});
  for (const HistoryRun& run : runs)
    table.row(
        run.verdict,
        {verdict_text(run, false), std::to_string(run.number), run.began,
         run.kind, human_count(run.match) + "/" + human_count(run.total()),
         human_count(run.mismatch), human_count(run.incomplete),
         side(run.golden, run.golden_version),
         side(run.target, run.target_version)});
  return table.render(options.columns, options.color);
}

std::string render_history_run(const HistoryRun& run,
                               const HistoryTextOptions& options) {
  std::string text = fmt::format(
      "run {}, {}, {}, {}\ngolden {}; target {}\n{}   {}\n", run.number,
      safe_text(run.kind), safe_text(run.began), human_seconds(run.seconds),
      safe_text(side(run.golden, run.golden_version)),
      safe_text(side(run.target, run.target_version)),
      verdict_text(run, options.color), counts_text(run));
  if (!run.command.empty()) text += "again: " + safe_text(run.command) + "\n";
  for (const HistoryEntry& entry : run.entries) {
    const bool passes =
        entry.verdict == Verdict::kMatch || entry.verdict == Verdict::kEmpty;
    if (passes && !options.all) continue;
    text += "  " +
            colored(entry.verdict, to_string(entry.verdict), options.color) +
            how(entry) + "   " + name_of(entry);
    if (!std::isnan(entry.figure))
      text += "   rel. L2 " + format_figure(entry.figure);
    if (!entry.why.empty()) text += "   " + safe_text(entry.why);
    text += "\n";
  }
  return text;
}

std::string render_diff(const HistoryDiff& diff,
                        const HistoryTextOptions& options) {
  std::string changes;
  for (const Change change : kChanges)
    changes += changes_of(diff, change, options);
  for (const auto& [group, count] : diff.groups_not_run)
    changes +=
        fmt::format("\nnot run: {}, which had {} {}\n", safe_text(group),
                    human_count(count), count == 1 ? "entry" : "entries");
  if (changes.empty()) changes = kNothing;
  if (diff.still_failing > 0)
    changes += "\nstill no match: " + human_count(diff.still_failing) + "\n";
  return diff_head(diff, options.color) + changes;
}

}  // namespace assay
