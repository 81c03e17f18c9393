#include "assay/compare/runs/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "assay/base/text.h"

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Equal in every bit; NaN is NaN.
bool same(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

// The steps of a log that have the figure and are asked for, one by one.
class Steps {
 public:
  Steps(const RunLog& log, Figure figure, const RunsOptions& options)
      : log_(log), figure_(figure), options_(options) {
    settle();
  }
  bool done() const { return at_ == log_.steps.size(); }
  std::int64_t step() const { return log_.steps[at_].step; }
  double value() const { return log_.steps[at_].at(figure_); }
  void next() {
    ++at_;
    settle();
  }
  // The value at `step`, to which it goes; NaN where there is none.
  double value_at(std::int64_t wanted) {
    while (!done() && step() < wanted) next();
    return !done() && step() == wanted ? value() : kNan;
  }

 private:
  void settle() {
    while (!done() && !counts(log_.steps[at_])) ++at_;
  }
  bool counts(const RunStep& s) const {
    return s.has(figure_) && s.step >= options_.from && s.step <= options_.to &&
           s.step % options_.every == 0;
  }
  const RunLog& log_;
  Figure figure_;
  const RunsOptions& options_;
  std::size_t at_ = 0;
};

// Fills the steps and both curves with what both runs have.
void align(const RunLog& reference, const RunLog& target,
           const RunsOptions& options, RunCurve& curve) {
  Steps a(reference, curve.figure, options), b(target, curve.figure, options);
  while (!a.done() || !b.done()) {
    if (b.done() || (!a.done() && a.step() < b.step())) {
      ++curve.only_reference;
      a.next();
    } else if (a.done() || b.step() < a.step()) {
      ++curve.only_target;
      b.next();
    } else {
      curve.steps.push_back(a.step());
      curve.reference.push_back(a.value());
      curve.target.push_back(b.value());
      a.next();
      b.next();
    }
  }
}

void find_differences(RunCurve& c) {
  const auto point = [&c](std::size_t i) {
    return RunPoint{c.steps[i], c.reference[i], c.target[i]};
  };
  double largest = 0;
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    if (same(c.reference[i], c.target[i])) continue;
    if (!c.first_difference) c.first_difference = point(i);
    const double d = point(i).difference();
    if (d > largest) {
      largest = d;
      c.largest_difference = point(i);
    }
  }
}

void find_growth(RunCurve& c) {
  if (!c.largest_difference || !c.first_difference) return;
  const double first = c.first_difference->difference();
  const double half = c.largest_difference->difference() / 2;
  if (!(first > 0) || !std::isfinite(half)) return;
  std::size_t i = 0;
  while (c.steps[i] < c.first_difference->step) ++i;
  const auto at = [&c](std::size_t k) {
    return RunPoint{c.steps[k], c.reference[k], c.target[k]}.difference();
  };
  while (!(at(i) >= half)) ++i;  // the largest is, at the latest
  const double doublings = std::log2(at(i) / first);
  const auto steps = static_cast<double>(c.steps[i] - c.first_difference->step);
  c.doubling_steps = doublings < 2 ? 0 : steps / doublings;
}

void find_mean_ratio(RunCurve& c) {
  double reference = 0, target = 0;
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    if (!std::isfinite(c.reference[i]) || !std::isfinite(c.target[i])) continue;
    reference += c.reference[i];
    target += c.target[i];
  }
  if (reference != 0) c.mean_ratio = target / reference;
}

Band band_at(const std::vector<const RunLog*>& references,
             const RunsOptions& options, const RunCurve& curve) {
  std::vector<std::vector<double>> runs = {curve.reference};
  for (std::size_t k = 1; k < references.size(); ++k) {
    Steps steps(*references[k], curve.figure, options);
    std::vector<double> values;
    values.reserve(curve.steps.size());
    for (const std::int64_t step : curve.steps)
      values.push_back(steps.value_at(step));
    runs.push_back(smoothed(values, options.smooth));
  }
  return band_of(runs, kBandReach * options.smooth);
}

RunExcess excess_at(const RunCurve& c, std::size_t i) {
  const Band& band = *c.band;
  return {c.steps[i],
          c.target[i],
          band.low[i],
          band.high[i],
          band.excess(i, c.target[i]),
          band.deviation[i]};
}

// Of the steps outside, the first from which on a share of kBandStay is.
std::size_t leaving_step(const RunCurve& c,
                         const std::vector<std::size_t>& outside) {
  std::size_t banded = 0, found = outside.back(), left = 0;
  for (std::size_t k = outside.size(); k-- > 0;) {
    const std::size_t end =
        k + 1 < outside.size() ? outside[k + 1] : c.steps.size();
    for (std::size_t i = outside[k]; i < end; ++i) banded += c.band->has(i);
    ++left;
    if (static_cast<double>(left) >= kBandStay * static_cast<double>(banded))
      found = outside[k];
  }
  return found;
}

void find_excesses(RunCurve& c, std::size_t smooth) {
  std::vector<std::size_t> outside;
  std::size_t streak = 0;
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    if (!c.band->has(i)) {
      ++c.unbanded;
      continue;
    }
    if (c.band->holds(i, c.target[i])) {
      streak = 0;
      continue;
    }
    ++streak;
    outside.push_back(i);
    const RunExcess e = excess_at(c, i);
    if (!c.first_outside) c.first_outside = e;
    if (!c.farthest || e.excess > c.farthest->excess) c.farthest = e;
  }
  c.outside = static_cast<std::int64_t>(outside.size());
  if (streak >= kBandStreak * smooth)
    c.leaves_for_good = excess_at(c, leaving_step(c, outside));
}

std::string excess_text(const RunExcess& e) {
  const double limit = e.value > e.high ? e.high : e.low;
  std::string text =
      fmt::format("{} is {} {}", format_figure(e.value),
                  e.value > e.high ? "above" : "below", format_figure(limit));
  if (!std::isfinite(e.excess)) return format_double(e.value);
  text += fmt::format(", by {}", format_figure(e.excess));
  if (e.deviation > 0)
    text += fmt::format(" ({:.3g} sd)", e.excess / e.deviation);
  return text;
}

void judge(RunCurve& c, Verdict verdict, std::string reason) {
  c.verdict = verdict;
  c.reason = std::move(reason);
}

// NaN or an infinity that the references do not have.
std::optional<std::size_t> first_wild(const RunCurve& c) {
  for (std::size_t i = 0; i < c.steps.size(); ++i) {
    const bool sound = c.band ? c.band->has(i) : std::isfinite(c.reference[i]);
    if (sound && !std::isfinite(c.target[i])) return i;
  }
  return std::nullopt;
}

bool is_mismatch(RunCurve& c) {
  if (const auto i = first_wild(c)) {
    judge(c, Verdict::kMismatch,
          fmt::format("{} at step {}, where the reference is finite",
                      format_double(c.target[*i]), c.steps[*i]));
    return true;
  }
  if (!c.band) return false;
  if (c.leaves_for_good) {
    judge(
        c, Verdict::kMismatch,
        fmt::format("leaves the band for good at step {}: {}",
                    c.leaves_for_good->step, excess_text(*c.leaves_for_good)));
    return true;
  }
  const auto banded = static_cast<double>(
      static_cast<std::int64_t>(c.steps.size()) - c.unbanded);
  const double share = static_cast<double>(c.outside) / banded;
  if (c.outside == 0 || share <= c.allowed) return false;
  judge(c, Verdict::kMismatch,
        fmt::format("outside the band at {} of {} steps ({:.1f} %, {:.0f} % "
                    "may be), first at step {}: {}",
                    human_count(c.outside),
                    human_count(static_cast<std::int64_t>(banded)), 100 * share,
                    100 * c.allowed, c.first_outside->step,
                    excess_text(*c.first_outside)));
  return true;
}

std::string steps_text(std::int64_t count) {
  return human_count(count) + (count == 1 ? " step" : " steps");
}

// Why a curve without a mismatch is no match either; "" where it is.
std::string gap(const RunCurve& c, std::size_t references) {
  if (c.steps.empty() && c.only_reference + c.only_target == 0)
    return "no step of it is asked for";
  if (c.steps.empty())
    return c.only_target == 0      ? "the target did not log it"
           : c.only_reference == 0 ? "the reference did not log it"
                                   : "no step is in both runs";
  if (c.only_reference > 0)
    return "not in the target: " + steps_text(c.only_reference) +
           " of the reference";
  if (c.only_target > 0)
    return "not in the reference: " + steps_text(c.only_target) +
           " of the target";
  const bool sound = std::ranges::any_of(
      c.target, [](double value) { return std::isfinite(value); });
  if (!sound) return "no value is finite";
  if (!c.first_difference) return "";
  if (!c.band)
    return fmt::format(
        "nothing proven: differs from step {} on, and {} reference {} no band "
        "({} do)",
        c.first_difference->step, references,
        references == 1 ? "run spans" : "runs span", kBandRuns);
  if (c.unbanded > 0)
    return steps_text(c.unbanded) +
           " without a band: not every reference run has a finite value there";
  return "";
}

void judge_curve(RunCurve& c, std::size_t references) {
  if (is_mismatch(c)) return;
  std::string missing = gap(c, references);
  if (!missing.empty())
    return judge(c, Verdict::kIncomplete, std::move(missing));
  const auto count = static_cast<std::int64_t>(c.steps.size());
  if (!c.first_difference)
    return judge(c, Verdict::kMatch,
                 "the same value at all " + steps_text(count));
  if (c.outside == 0)
    return judge(c, Verdict::kMatch,
                 "inside the band at all " + steps_text(count));
  judge(
      c, Verdict::kMatch,
      fmt::format("outside the band at {} of {} steps ({:.0f} % may be), and "
                  "back",
                  human_count(c.outside), human_count(count), 100 * c.allowed));
}

}  // namespace

double RunPoint::difference() const { return std::fabs(target - reference); }

std::optional<RunCurve> compare_curve(
    const std::vector<const RunLog*>& references, const RunLog& target,
    Figure figure, const RunsOptions& options) {
  const RunLog& reference = *references.front();
  if (!reference.has(figure) && !target.has(figure)) return std::nullopt;
  RunCurve curve;
  curve.figure = figure;
  curve.judged = std::ranges::count(options.judged, figure) > 0;
  align(reference, target, options, curve);
  find_differences(curve);
  find_growth(curve);
  find_mean_ratio(curve);
  curve.reference = smoothed(curve.reference, options.smooth);
  curve.target = smoothed(curve.target, options.smooth);
  if (curve.judged && references.size() >= kBandRuns && !curve.steps.empty()) {
    curve.band = band_at(references, options, curve);
    find_excesses(curve, options.smooth);
    curve.allowed = allowed_share(
        curve.steps.size() - static_cast<std::size_t>(curve.unbanded),
        options.smooth);
  }
  if (curve.judged) judge_curve(curve, references.size());
  return curve;
}

}  // namespace assay
