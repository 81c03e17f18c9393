// Whether runs of a training went the same way: each against a reference run
// and the band that the reference's seeds span.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/runs/band.h"
#include "assay/metrics/verdict.h"
#include "assay/trace/run_log.h"

namespace assay {

struct RunsOptions {
  std::vector<Figure> judged = {Figure::kLoss, Figure::kGradNorm};
  std::size_t smooth = 1;  // values of the mean that is judged
  std::int64_t from = 0, to = std::numeric_limits<std::int64_t>::max();
  std::int64_t every = 1;  // only steps that it divides
};

// A step and both values there, as they were logged.
struct RunPoint {
  std::int64_t step = 0;
  double reference = 0, target = 0;

  double difference() const;  // |target - reference|; NaN where that is none
};

// A step outside the band.
struct RunExcess {
  std::int64_t step = 0;
  double value = 0, low = 0, high = 0, excess = 0;
  double deviation = 0;  // of the reference runs there
};

// One figure of one run against the reference.
struct RunCurve {
  Figure figure = Figure::kLoss;
  bool judged = false;  // the others are shown
  Verdict verdict = Verdict::kIncomplete;
  std::string reason;  // one line, why

  std::int64_t only_reference = 0, only_target = 0;  // steps of one run alone
  std::int64_t unbanded = 0;  // common steps at which there is no band
  std::int64_t outside = 0;   // steps outside of the band
  double allowed = 0;         // the share of them that may be
  std::optional<RunPoint> first_difference;  // in any bit
  std::optional<RunPoint> largest_difference;
  // Steps in which the difference doubled, on its way from the first to the
  // first that is at least half of the largest. 0: that is not the fourfold of
  // the first, so it was there at once.
  std::optional<double> doubling_steps;
  std::optional<RunExcess> first_outside, leaves_for_good, farthest;
  // Mean of the target over that of the reference, of the steps at which both
  // are finite.
  std::optional<double> mean_ratio;

  // What was compared, by common step: smoothed where that was asked for.
  std::vector<std::int64_t> steps;
  std::vector<double> reference, target;
  std::optional<Band> band;
};

struct RunPair {
  std::size_t target = 1;  // index into RunsComparison::runs
  Verdict verdict = Verdict::kIncomplete;
  std::vector<RunCurve> curves;  // judged ones first
};

struct RunsComparison {
  Verdict verdict = Verdict::kIncomplete;
  std::vector<RunLog> runs;    // the first is the reference
  std::vector<RunLog> seeds;   // further reference runs that count
  std::vector<RunPair> pairs;  // one for each run but the first
  std::vector<std::string> warnings;
  RunsOptions options;
  std::string command;  // to repeat it
};

// Of each judged figure:
//   mismatch    NaN or an infinity where the reference runs are finite; outside
//               the band at every one of the last kBandStreak steps (times
//               `smooth`);
//               outside at more than allowed_share() of the steps
//   incomplete  otherwise, where a step is in one run alone, a step has no
//               band, or there are fewer than kBandRuns reference runs
//   match       otherwise; and without a band where every value is the same
// A run is the worst of its judged figures, the comparison its worst run; none
// judged is incomplete. Seeds equal to an earlier reference run in every loss
// do not count, with a warning. `runs`: at least two. Throws nothing of its
// own.
RunsComparison compare_runs(std::vector<RunLog> runs, std::vector<RunLog> seeds,
                            const RunsOptions& options);

}  // namespace assay
