#include "assay/report/runs/run_panel.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool asked_for(const RunsOptions& o, std::int64_t step) {
  return step >= o.from && step <= o.to && step % o.every == 0;
}

std::vector<std::int64_t> steps_of(const RunsComparison& c, Figure figure) {
  std::vector<std::int64_t> steps;
  for (const RunLog& log : c.runs)
    for (const RunStep& s : log.steps)
      if (s.has(figure) && asked_for(c.options, s.step))
        steps.push_back(s.step);
  std::ranges::sort(steps);
  steps.erase(std::ranges::unique(steps).begin(), steps.end());
  return steps;
}

std::vector<double> curve_of(const RunsComparison& c, const RunLog& log,
                             Figure figure,
                             const std::vector<std::int64_t>& steps) {
  std::vector<double> values;
  std::vector<std::size_t> places;
  std::size_t i = 0;
  for (const RunStep& s : log.steps) {
    if (!s.has(figure) || !asked_for(c.options, s.step)) continue;
    while (steps[i] < s.step) ++i;
    values.push_back(s.at(figure));
    places.push_back(i);
  }
  values = smoothed(values, c.options.smooth);
  std::vector<double> curve(steps.size(), kNan);
  for (std::size_t k = 0; k < places.size(); ++k) curve[places[k]] = values[k];
  return curve;
}

// The widest band of those of all targets: they are of the same runs, at the
// steps that each target shares.
void add_band(const RunsComparison& c, RunPanel& panel) {
  const RunCurve* found = nullptr;
  for (const RunPair& pair : c.pairs)
    for (const RunCurve& curve : pair.curves)
      if (curve.figure == panel.figure && curve.band &&
          (!found || curve.steps.size() > found->steps.size()))
        found = &curve;
  if (!found) return;
  panel.low.assign(panel.steps.size(), kNan);
  panel.high.assign(panel.steps.size(), kNan);
  std::size_t i = 0;
  for (std::size_t k = 0; k < found->steps.size(); ++k) {
    while (panel.steps[i] < found->steps[k]) ++i;
    panel.low[i] = found->band->low[k];
    panel.high[i] = found->band->high[k];
  }
}

std::vector<std::vector<double>*> curves_of(RunPanel& panel) {
  std::vector<std::vector<double>*> curves;
  for (auto* list : {&panel.runs, &panel.differences})
    for (std::vector<double>& curve : *list) curves.push_back(&curve);
  for (std::vector<double>* curve : {&panel.low, &panel.high})
    if (!curve->empty()) curves.push_back(curve);
  return curves;
}

// Marks the indices of the extremes of `curve` within [begin, end).
void keep_extremes(const std::vector<double>& curve, std::size_t begin,
                   std::size_t end, std::vector<bool>& kept) {
  std::size_t least = end, most = end;
  for (std::size_t i = begin; i < end; ++i) {
    if (std::isnan(curve[i])) continue;
    if (least == end || curve[i] < curve[least]) least = i;
    if (most == end || curve[i] > curve[most]) most = i;
  }
  if (least < end) kept[least] = kept[most] = true;
}

void thin(RunPanel& panel, std::size_t most) {
  const std::size_t count = panel.steps.size();
  if (count <= most) return;
  const auto curves = curves_of(panel);
  std::vector<bool> kept(count, false);
  kept.front() = kept.back() = true;
  const std::size_t parts =
      std::max<std::size_t>(1, most / (2 * curves.size()));
  for (const std::vector<double>* curve : curves)
    for (std::size_t p = 0; p < parts; ++p)
      keep_extremes(*curve, p * count / parts, (p + 1) * count / parts, kept);
  const auto compact = [&kept](auto& values) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < kept.size(); ++i)
      if (kept[i]) values[out++] = values[i];
    values.resize(out);
  };
  compact(panel.steps);
  for (std::vector<double>* curve : curves) compact(*curve);
}

}  // namespace

RunPanel run_panel(const RunsComparison& c, Figure figure, std::size_t most) {
  RunPanel panel;
  panel.figure = figure;
  panel.judged = std::ranges::count(c.options.judged, figure) > 0;
  panel.steps = steps_of(c, figure);
  panel.logged = panel.steps.size();
  for (const RunLog& log : c.runs)
    panel.runs.push_back(curve_of(c, log, figure, panel.steps));
  for (std::size_t r = 1; r < panel.runs.size(); ++r) {
    std::vector<double> difference;
    difference.reserve(panel.steps.size());
    for (std::size_t i = 0; i < panel.steps.size(); ++i)
      difference.push_back(std::fabs(panel.runs[r][i] - panel.runs[0][i]));
    panel.differences.push_back(std::move(difference));
  }
  add_band(c, panel);
  thin(panel, most);
  return panel;
}

}  // namespace assay
