// A distribution between two bounds with a given mean and mean square.
#pragma once

#include <cmath>
#include <optional>

namespace assay::precheck {

struct Moments {
  std::optional<double> mean, square;  // of x and of x^2
};

// x = min + (max - min) (1 + t / sqrt(1 + t^2)) / 2, t = centre + width z, for
// z standard normal. Of +, -, *, / and sqrt alone: the same bits everywhere.
class Spread {
 public:
  // Centre and width by bisection over a grid of normal quantiles. Moments
  // that no distribution between the bounds has are met as nearly as possible;
  // without any the middle and a third of the range are taken.
  Spread(double min, double max, const Moments& moments);

  // In [min, max].
  double at(double z) const {
    const double t = centre_ + width_ * z;
    const double share = 0.5 + 0.5 * t / std::sqrt(1 + t * t);
    return share < 0.5 ? min_ + range_ * share : max_ - range_ * (1 - share);
  }

 private:
  double min_, max_, range_;
  double centre_ = 0, width_ = 0;
};

}  // namespace assay::precheck
