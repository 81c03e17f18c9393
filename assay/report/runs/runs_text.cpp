#include "assay/report/runs/runs_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/base/text.h"
#include "assay/report/display.h"
#include "assay/report/runs/sparkline.h"
#include "assay/report/terminal_table.h"
#include "assay/report/text_table.h"

namespace assay {
namespace {

using Align = TextTable::Align;
using Tight = TextTable::Tight;
constexpr std::size_t kSparkColumns = 12;

std::string run_line(const char* what, const RunLog& log) {
  return fmt::format(
      "{:<10}  {}   {}, {} to {}\n", what, safe_text(log.path),
      plural(static_cast<std::int64_t>(log.steps.size()), "step"),
      log.steps.front().step, log.steps.back().step);
}

std::string band_lines(const RunsComparison& c) {
  const std::size_t runs = 1 + c.seeds.size();
  if (runs < kBandRuns)
    return fmt::format(
        "band        none: the reference and {}, two are needed\n",
        plural(static_cast<std::int64_t>(c.seeds.size()), "seed"));
  return fmt::format(
      "band        of {} runs: their extremes, and mean ± {:.3g} sd, with sd "
      "over {} steps\n"
      "agrees      with as many steps outside as chance puts there, and not "
      "the last {}\n",
      runs, 2 * std::sqrt(1 + 1 / static_cast<double>(runs)),
      2 * kBandReach * c.options.smooth + 1, kBandStreak * c.options.smooth);
}

std::string smoothing_line(const RunsOptions& options) {
  return options.smooth <= 1
             ? ""
             : fmt::format("smoothed    mean of the last {} steps\n",
                           options.smooth);
}

// The curve that decided.
const RunCurve* deciding(const RunPair& pair) {
  const RunCurve* found = nullptr;
  for (const RunCurve& curve : pair.curves)
    if (curve.judged && curve.verdict == pair.verdict && !found) found = &curve;
  return found;
}

std::string reason_of(const RunCurve& curve) {
  return fmt::format("{}{} {}", to_string(curve.figure),
                     curve.verdict == Verdict::kMismatch ? "" : ":",
                     curve.reason);
}

std::string verdict_line(const RunsComparison& c, const RunPair& pair,
                         bool color) {
  const RunCurve* curve = deciding(pair);
  return fmt::format(
      "{}  {}   {}\n", colored(pair.verdict, to_string(pair.verdict), color),
      safe_text(c.runs[pair.target].path),
      curve ? reason_of(*curve) : "no figure that is judged is in the logs");
}

std::string figure_text(Figure figure, double value) {
  const bool bytes =
      figure == Figure::kPeakRss || figure == Figure::kDevicePeak;
  return bytes && std::isfinite(value)
             ? human_bytes(static_cast<std::int64_t>(value))
             : format_figure(value);
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(const std::vector<double>& values) {
    for (const double v : values) {
      if (!std::isfinite(v)) continue;
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
};

std::string outside_text(const RunCurve& c) {
  if (!c.band) return "";
  return human_count(c.outside) + "/" +
         human_count(static_cast<std::int64_t>(c.steps.size()));
}

std::vector<std::string> cells(const RunCurve& c) {
  std::vector<std::string> row = {
      c.judged ? std::string(to_string(c.verdict)) : "shown",
      std::string(to_string(c.figure))};
  if (!c.steps.empty()) {
    Range range;
    range.add(c.reference);
    range.add(c.target);
    for (const auto* values : {&c.reference, &c.target})
      row.push_back(sparkline(*values, range.low, range.high, kSparkColumns));
    for (const auto* values : {&c.reference, &c.target})
      row.push_back(figure_text(c.figure, values->back()));
    row.push_back(c.mean_ratio ? fmt::format("{:.4g}x", *c.mean_ratio) : "");
    row.push_back(outside_text(c));
  }
  row.resize(8);
  return row;
}

std::string table_of(const RunPair& pair, const RunsTextOptions& options) {
  TextTable table({{"verdict"},
                   {"figure"},
                   {"reference", Align::kLeft, Tight::kDrop},
                   {"target", Align::kLeft, Tight::kDrop},
                   {"last", Align::kRight},
                   {"target's", Align::kRight},
                   {"mean", Align::kRight},
                   {"outside", Align::kRight}});
  for (const RunCurve& curve : pair.curves) {
    if (curve.judged)
      table.row(curve.verdict, cells(curve));
    else
      table.row(cells(curve));
  }
  return table.render(options.columns, options.color);
}

// Where the two part, and how fast.
std::string difference_line(const RunCurve& c) {
  if (!c.first_difference) return "";
  std::string text = fmt::format("  {} differs from step {} on",
                                 to_string(c.figure), c.first_difference->step);
  const double first = c.first_difference->difference();
  if (!std::isnan(first)) text += ", by " + format_figure(first);
  if (c.largest_difference)
    text += fmt::format("; most at step {}, by {}", c.largest_difference->step,
                        format_figure(c.largest_difference->difference()));
  if (c.doubling_steps && *c.doubling_steps > 0)
    text += fmt::format("; doubled every {:.3g} steps", *c.doubling_steps);
  return text + "\n";
}

// What the other judged figures have to say, and where each of them parts.
std::string details(const RunPair& pair) {
  std::string text;
  for (const RunCurve& curve : pair.curves) {
    if (!curve.judged) continue;
    if (&curve != deciding(pair)) text += "  " + reason_of(curve) + "\n";
    text += difference_line(curve);
  }
  return text;
}

}  // namespace

std::string render_runs_comparison(const RunsComparison& c,
                                   const RunsTextOptions& options) {
  std::string text;
  if (!options.quiet) {
    text += run_line("reference", c.runs.front());
    for (std::size_t i = 1; i < c.runs.size(); ++i)
      text += run_line("target", c.runs[i]);
    for (const RunLog& seed : c.seeds) text += run_line("seed", seed);
    text += band_lines(c) + smoothing_line(c.options);
    for (const std::string& warning : c.warnings)
      text += "warning     " + safe_text(warning) + "\n";
  }
  for (const RunPair& pair : c.pairs) {
    if (!options.quiet) text += "\n";
    text += verdict_line(c, pair, options.color);
    if (options.quiet) continue;
    text += details(pair) + "\n" + table_of(pair, options);
  }
  return text;
}

}  // namespace assay
