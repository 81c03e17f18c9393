#include "assay/precheck/spread.h"

#include <algorithm>
#include <array>

#include "assay/numerics/basic_math.h"

namespace assay::precheck {
namespace {

constexpr int kGrid = 64;
constexpr int kSteps = 32;

const std::array<double, kGrid>& quantiles() {
  static const std::array<double, kGrid> kZ = [] {
    std::array<double, kGrid> z{};
    for (int i = 0; i < kGrid; ++i)
      z[static_cast<std::size_t>(i)] = normal_quantile((i + 0.5) / kGrid);
    return z;
  }();
  return kZ;
}

// Of t / sqrt(1 + t^2) over t = centre + width z.
struct Sums {
  double mean = 0, square = 0;
};

Sums sums(double centre, double width) {
  Sums total;
  for (const double z : quantiles()) {
    const double t = centre + width * z;
    const double s = t / std::sqrt(1 + t * t);
    total.mean += s / kGrid;
    total.square += s * s / kGrid;
  }
  return total;
}

// The centre that gives the mean, which grows with it. In units of the width
// and of 1, so that narrow distributions near a bound are found too.
double centre_of(double mean, double width) {
  double low = -1, high = 1;
  for (int i = 0; i < kSteps && sums(low, width).mean > mean; ++i) low *= 2;
  for (int i = 0; i < kSteps && sums(high, width).mean < mean; ++i) high *= 2;
  for (int i = 0; i < kSteps; ++i) {
    const double middle = 0.5 * (low + high);
    (sums(middle, width).mean < mean ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

}  // namespace

Spread::Spread(double min, double max, const Moments& moments)
    : min_(min), max_(max), range_(max - min) {
  if (!(range_ > 0)) return;
  // In [-1, 1], where the formula's s lives. Halves: a range may overflow.
  const double half = 0.5 * max - 0.5 * min, middle = 0.5 * max + 0.5 * min;
  constexpr double kEdge = 1 - 1e-9;
  const double mean = std::clamp(
      moments.mean ? (*moments.mean - middle) / half : 0.0, -kEdge, kEdge);
  double variance = 1.0 / 9;
  if (moments.square) {
    const double of_mean = moments.mean.value_or(middle);
    variance = (*moments.square - of_mean * of_mean) / half / half;
  }
  variance = std::clamp(variance, 0.0, (1 - mean * mean) * kEdge);
  if (!std::isfinite(range_) || !std::isfinite(variance)) {
    range_ = 0;  // beyond fp64: the extremes alone
    max_ = min_ = middle;
    return;
  }
  double low = 0, high = 1e-12;
  const auto spread = [&](double width) {
    const Sums found = sums(centre_of(mean, width), width);
    return found.square - found.mean * found.mean;
  };
  for (int i = 0; i < kSteps && high < 1e6 && spread(high) < variance; ++i) {
    low = high;
    high *= 4;
  }
  for (int i = 0; i < 24; ++i) {
    const double width = 0.5 * (low + high);
    (spread(width) < variance ? low : high) = width;
  }
  width_ = 0.5 * (low + high);
  centre_ = centre_of(mean, width_);
}

}  // namespace assay::precheck
