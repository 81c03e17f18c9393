#include "assay/compare/runs/compare_runs.h"

#include <algorithm>
#include <utility>

#include "assay/base/text.h"
#include "assay/compare/runs/curve.h"

namespace assay {
namespace {

// Losses, or what is logged instead, are the same at the same steps.
bool same_run(const RunLog& a, const RunLog& b) {
  return std::ranges::equal(
      a.steps, b.steps, [](const RunStep& x, const RunStep& y) {
        const auto index = static_cast<std::size_t>(Figure::kLoss);
        return x.step == y.step && x.has(Figure::kLoss) &&
               y.has(Figure::kLoss) && x.values[index] == y.values[index];
      });
}

// Drops the seeds that are no further run.
void drop_doubles(RunsComparison& c) {
  std::vector<RunLog> kept;
  for (RunLog& seed : c.seeds) {
    const RunLog* twin =
        same_run(c.runs.front(), seed) ? &c.runs.front() : nullptr;
    for (const RunLog& earlier : kept)
      if (!twin && same_run(earlier, seed)) twin = &earlier;
    if (twin)
      c.warnings.push_back(printable(seed.path) + ": every loss is that of " +
                           printable(twin->path) +
                           ": no further seed, not counted");
    else
      kept.push_back(std::move(seed));
  }
  c.seeds = std::move(kept);
}

RunPair compare_pair(const RunsComparison& c, std::size_t target) {
  std::vector<const RunLog*> references = {&c.runs.front()};
  for (const RunLog& seed : c.seeds) references.push_back(&seed);
  RunPair pair;
  pair.target = target;
  const auto add = [&](Figure figure) {
    if (auto curve =
            compare_curve(references, c.runs[target], figure, c.options))
      pair.curves.push_back(std::move(*curve));
  };
  for (const Figure figure : c.options.judged) add(figure);
  for (std::size_t i = 0; i < kFigures; ++i)
    if (std::ranges::count(c.options.judged, static_cast<Figure>(i)) == 0)
      add(static_cast<Figure>(i));
  bool any = false, whole = true;
  for (const RunCurve& curve : pair.curves) {
    if (!curve.judged) continue;
    any = true;
    if (curve.verdict == Verdict::kMismatch) pair.verdict = Verdict::kMismatch;
    whole = whole && curve.verdict == Verdict::kMatch;
  }
  if (any && whole) pair.verdict = Verdict::kMatch;
  return pair;
}

}  // namespace

RunsComparison compare_runs(std::vector<RunLog> runs, std::vector<RunLog> seeds,
                            const RunsOptions& options) {
  RunsComparison c;
  c.options = options;
  c.runs = std::move(runs);
  c.seeds = std::move(seeds);
  for (const auto* logs : {&c.runs, &c.seeds})
    for (const RunLog& log : *logs)
      c.warnings.insert(c.warnings.end(), log.warnings.begin(),
                        log.warnings.end());
  drop_doubles(c);
  c.verdict = Verdict::kMatch;
  for (std::size_t i = 1; i < c.runs.size(); ++i) {
    c.pairs.push_back(compare_pair(c, i));
    const Verdict verdict = c.pairs.back().verdict;
    if (verdict == Verdict::kMismatch || c.verdict == Verdict::kMatch)
      c.verdict = verdict;
  }
  return c;
}

}  // namespace assay
