#include "assay/compare/runs/band.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The values of all runs at one step.
struct Spread {
  double low = INFINITY, high = -INFINITY, mean = kNan, variance = kNan;
};

Spread spread_at(const std::vector<std::vector<double>>& runs, std::size_t i) {
  Spread s;
  const auto n = static_cast<double>(runs.size());
  double sum = 0;
  for (const auto& run : runs) {
    if (!std::isfinite(run[i])) return {};
    s.low = std::min(s.low, run[i]);
    s.high = std::max(s.high, run[i]);
    sum += run[i];
  }
  s.mean = sum / n;
  double squares = 0;
  for (const auto& run : runs) squares += (run[i] - s.mean) * (run[i] - s.mean);
  s.variance = squares / (n - 1);
  return s;
}

// Mean over the variances within reach of `i` that are known.
double pooled(const std::vector<Spread>& spreads, std::size_t i,
              std::size_t reach) {
  const std::size_t begin = i < reach ? 0 : i - reach;
  const std::size_t end = std::min(spreads.size(), i + reach + 1);
  double sum = 0, count = 0;
  for (std::size_t k = begin; k < end; ++k) {
    if (std::isnan(spreads[k].variance)) continue;
    sum += spreads[k].variance;
    ++count;
  }
  return sum / count;
}

}  // namespace

double Band::excess(std::size_t i, double value) const {
  if (holds(i, value)) return 0;
  if (!std::isfinite(value)) return INFINITY;
  return value > high[i] ? value - high[i] : low[i] - value;
}

Band band_of(const std::vector<std::vector<double>>& runs, std::size_t reach) {
  const std::size_t steps = runs.front().size();
  const auto n = static_cast<double>(runs.size());
  std::vector<Spread> spreads;
  spreads.reserve(steps);
  for (std::size_t i = 0; i < steps; ++i) spreads.push_back(spread_at(runs, i));
  Band band;
  band.low.assign(steps, kNan);
  band.high.assign(steps, kNan);
  band.deviation.assign(steps, kNan);
  for (std::size_t i = 0; i < steps; ++i) {
    const Spread& s = spreads[i];
    if (std::isnan(s.mean)) continue;
    band.deviation[i] = std::sqrt(pooled(spreads, i, reach));
    const double r = 2 * band.deviation[i] * std::sqrt(1 + 1 / n);
    band.low[i] = std::min(s.low, s.mean - r);
    band.high[i] = std::max(s.high, s.mean + r);
  }
  return band;
}

double allowed_share(std::size_t steps, std::size_t smooth) {
  constexpr double kChance = 0.0455, kLeast = 0.1;  // of a normal beyond 2 sd
  const double draws =
      std::max(1.0, static_cast<double>(steps) / static_cast<double>(smooth));
  return std::max(kLeast,
                  kChance + 3 * std::sqrt(kChance * (1 - kChance) / draws));
}

std::vector<double> smoothed(const std::vector<double>& values,
                             std::size_t width) {
  if (width <= 1) return values;
  std::vector<double> out;
  out.reserve(values.size());
  double sum = 0;
  std::size_t wild = 0;  // values in the window that are not finite
  const auto add = [&](double value, bool enters) {
    if (!std::isfinite(value))
      wild += enters ? 1 : std::size_t(-1);
    else
      sum += enters ? value : -value;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    add(values[i], true);
    if (i >= width) add(values[i - width], false);
    const auto count = static_cast<double>(std::min(i + 1, width));
    out.push_back(wild > 0 ? kNan : sum / count);
  }
  return out;
}

}  // namespace assay
