// The band that repeated runs of one training span, step by step: what a run
// that differs by nothing but its seed stays in.
#pragma once

#include <cstddef>
#include <vector>

namespace assay {

// Steps on either side of one whose spread is taken together with its own; of
// means of N steps, N times as many.
inline constexpr std::size_t kBandReach = 5;
// Runs that a band needs: the reference and two seeds.
inline constexpr std::size_t kBandRuns = 3;
// So many steps at the end of a run, all outside, are no accident: the run has
// left the band. It left for good at the first step outside from which on this
// share of the steps is, for noise carries it back now and then. Of means of N
// steps, N times as many.
inline constexpr std::size_t kBandStreak = 3;
inline constexpr double kBandStay = 0.9;

// By index of a step. Where a run has no finite value there is no band: NaN.
//
//   low  = min(smallest, mean - r), high = max(largest, mean + r)
//   r    = 2 s sqrt(1 + 1/n)
//
// over the n runs; s is their standard deviation (n - 1), as root of the mean
// square over the steps within reach that have one, because that of three
// values at one step is no measure of anything. s sqrt(1 + 1/n) is the standard
// deviation of a further run's distance from the mean of n (the prediction
// interval), so independent noise leaves the band at 4.6 % of the steps.
struct Band {
  std::vector<double> low, high, deviation;  // deviation: s

  bool has(std::size_t i) const { return low[i] <= high[i]; }
  // False for what is not finite.
  bool holds(std::size_t i, double value) const {
    return low[i] <= value && value <= high[i];
  }
  // How far outside, 0 inside; infinite for what is not finite.
  double excess(std::size_t i, double value) const;
};

// `runs`: at least two, all of one length.
Band band_of(const std::vector<std::vector<double>>& runs, std::size_t reach);

// The share of `steps` that a run which belongs to the others may have outside:
// 4.6 % and three standard deviations of it, as if every step, or every
// `smooth` of them where means are judged, were a draw of its own; not less
// than 10 %.
double allowed_share(std::size_t steps, std::size_t smooth);

// Means of the last `width` values, at the beginning of as many as there are.
// What is not finite stays so for as long as it is among them.
std::vector<double> smoothed(const std::vector<double>& values,
                             std::size_t width);

}  // namespace assay
