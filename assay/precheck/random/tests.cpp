#include "assay/precheck/random/tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/metrics/distribution.h"

namespace assay::precheck {
namespace {

constexpr double kResolution = 0.1;

double size_of(const auto& sample) {
  return static_cast<double>(sample.size());
}

// sup over t of how far the share of places up to t must be from t.
double least_distance(const Places& places) {
  std::vector<double> lows, highs;
  lows.reserve(places.size());
  highs.reserve(places.size());
  for (const Place& place : places) {
    lows.push_back(place.low);
    highs.push_back(place.high);
  }
  std::sort(lows.begin(), lows.end());
  std::sort(highs.begin(), highs.end());
  const double n = size_of(places);
  double most = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto rank = static_cast<double>(i);
    // At least i + 1 places are up to highs[i]; at most i are below lows[i].
    most = std::max({most, (rank + 1) / n - highs[i], lows[i] - rank / n});
  }
  return most;
}

void test_moments(Findings& findings, const Places& places, bool atoms) {
  double low = 0, high = 0, near = 0, far = 0;
  for (const Place& p : places) {
    low += (atoms ? p.middle() : p.low) - 0.5;
    high += (atoms ? p.middle() : p.high) - 0.5;
    const double a = std::abs(p.low - 0.5), b = std::abs(p.high - 0.5);
    const bool centre = p.low < 0.5 && p.high > 0.5;
    near += centre ? 0 : std::min(a, b) * std::min(a, b);
    far += std::max(a, b) * std::max(a, b);
  }
  const double n = size_of(places);
  const double shift = std::max({0.0, low, -high});
  const double spread = std::max({0.0, near - n / 12, n / 12 - far});
  // u - 1/2 has variance 1/12, its square 1/180 about 1/12.
  const double p = std::min(bernstein_p(shift, n / 12, 0.5),
                            bernstein_p(spread, n / 180, 1.0 / 6));
  findings.test(2 * p, "moments",
                fmt::format("mean of u is off 1/2 by {:.3g}, of (u - 1/2)^2 "
                            "off 1/12 by {:.3g}",
                            shift / n, spread / n));
}

void test_ends(Findings& findings, const Places& places) {
  constexpr int kDepths[] = {7, 10, 13};
  const auto n = static_cast<std::int64_t>(places.size());
  double worst = 1;
  std::string text = "as many as expected beyond 1/128, 1/1024 and 1/8192";
  for (const int depth : kDepths)
    for (const bool upper : {false, true}) {
      const double t = std::ldexp(1, -depth);
      std::int64_t surely = 0, perhaps = 0;
      for (const Place& p : places) {
        surely += upper ? p.low >= 1 - t : p.high <= t;
        perhaps += upper ? p.high > 1 - t : p.low < t;
      }
      const double expected = static_cast<double>(n) * t;
      double p = 1;
      if (static_cast<double>(surely) > expected)
        p = binomial_upper(surely, n, t);
      if (static_cast<double>(perhaps) < expected)
        p = binomial_lower(perhaps, n, t);
      if (p >= worst) continue;
      worst = p;
      text = fmt::format(
          "{} to {} of {} draws in the {} 1/{} of the law, expected {:.1f}",
          surely, perhaps, n, upper ? "upper" : "lower", 1 << depth, expected);
    }
  findings.test(12 * worst, "tails", std::move(text));
}

}  // namespace

void Findings::require(bool holds, std::string criterion, std::string text,
                       std::int64_t index) {
  if (holds) return;
  failed_ = true;
  failures_.push_back({std::move(criterion), std::move(text), 0, 0, index});
}

void Findings::test(double p, std::string criterion, std::string text) {
  p = std::min(p * parts_, 1.0);
  Reason reason{std::move(criterion), {}, p, kLevel};
  reason.text =
      fmt::format("{}: p {:.2g}, least allowed {:.0e}", text, p, kLevel);
  reason.note = p >= kLevel;
  failed_ |= !reason.note;
  (reason.note ? notes_ : failures_).push_back(std::move(reason));
}

void Findings::incomplete(std::string criterion, std::string text) {
  gaps_.push_back({std::move(criterion), std::move(text)});
}

void Findings::note(std::string criterion, std::string text) {
  notes_.push_back({std::move(criterion), std::move(text), 0, 0, -1, true});
}

void Findings::enough(std::int64_t found, std::int64_t needed,
                      std::string what) {
  if (found >= needed) return;
  gaps_.push_back({"too_few",
                   fmt::format("{} {} are too few to tell, {} would do", found,
                               what, needed),
                   static_cast<double>(found), static_cast<double>(needed)});
}

Judgement Findings::judgement() const {
  Judgement result;
  result.verdict = failed_         ? Verdict::kMismatch
                   : gaps_.empty() ? Verdict::kMatch
                                   : Verdict::kIncomplete;
  result.reasons = failures_;
  for (Reason gap : gaps_) {
    gap.note = failed_;
    result.reasons.push_back(std::move(gap));
  }
  result.reasons.insert(result.reasons.end(), notes_.begin(), notes_.end());
  return result;
}

void test_law(Findings& findings, const Places& places, bool atoms) {
  if (places.empty()) return;
  const double distance = least_distance(places);
  const auto n = static_cast<std::int64_t>(places.size());
  findings.test(ks_bound(n, distance), "ks",
                fmt::format("the distribution of {} draws is off the law by "
                            "{:.3g}",
                            n, distance));
  test_moments(findings, places, atoms);
  test_ends(findings, places);
}

std::vector<std::int64_t> lags(std::int64_t n,
                               const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> all = {1, 2, 3, 4, 5, 6, 7, 8};
  for (std::int64_t lag = 16; lag <= n / 2; lag *= 2) all.push_back(lag);
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i-- > 0;)
    if (stride <= n)
      all.push_back(stride *= std::max<std::int64_t>(1, shape[i]));
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::erase_if(all, [n](std::int64_t lag) { return lag > n / 2; });
  return all;
}

void test_lags(Findings& findings, const std::vector<float>& centred,
               double variance, double bound,
               const std::vector<std::int64_t>& shape) {
  const auto n = static_cast<std::int64_t>(centred.size());
  const std::vector<std::int64_t> all = lags(n, shape);
  double worst = 1, figure = 0;
  std::int64_t at = 0;
  for (const std::int64_t lag : all) {
    double sum = 0;
    std::int64_t pairs = 0;
    for (std::int64_t i = lag; i < n; ++i) {
      const float a = centred[static_cast<std::size_t>(i)];
      const float b = centred[static_cast<std::size_t>(i - lag)];
      sum += static_cast<double>(a) * b;
      pairs += a != 0 && b != 0;
    }
    const double total = static_cast<double>(pairs) * variance * variance;
    const double p = bernstein_p(std::abs(sum), total, bound * bound);
    if (p >= worst) continue;
    worst = p;
    at = lag;
    figure = sum / (static_cast<double>(pairs) * variance);
  }
  findings.test(
      worst * static_cast<double>(all.size()), "correlation",
      fmt::format("correlation {:.3g} of draws that are {} apart", figure, at));
}

std::int64_t coins_needed(double p) {
  const double rare = std::min(p, 1 - p);
  // Normal: 5.33 standard deviations have chance kLevel.
  const double share = 5.33 * 5.33 * p * (1 - p) / (kResolution * kResolution);
  return static_cast<std::int64_t>(
      std::ceil(std::max(share, -std::log(kLevel) / rare)));
}

std::int64_t draws_needed() {
  return static_cast<std::int64_t>(
      std::ceil(std::log(2 / kLevel) / (2 * kResolution * kResolution)));
}

}  // namespace assay::precheck
