// The law that a call's arguments name, element by element.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "assay/precheck/random/arguments.h"
#include "assay/precheck/random/tests.h"

namespace assay::precheck {

struct RandomLaw {
  std::string text;  // "uniform in [0, 1)"
  // F at x for the i-th number of the output (of complex ones: component).
  std::function<double(double x, std::int64_t i)> cdf;
  bool integers = false;  // atoms at whole numbers
  bool alike = true;      // the same for every element
  // The least and the most that may come, and whether the most itself may.
  double least, most;
  bool most_belongs = true;
  // Elements of no spread (std 0, a chance of 0 or 1) must have this value.
  std::function<std::optional<double>(std::int64_t i)> fixed;
  // Width of u that a generator of few bits may leave out: 0 but for uniform.
  double grain = 0;
};

// nullopt: no law by that name. Throws Error{kUsage} where an argument that
// it needs is missing or no number.
std::optional<RandomLaw> find_law(const RandomCall& call,
                                  const std::string& name,
                                  const Tensor& device);

// Judges the numbers of `device` against it.
void judge_law(Findings& findings, const RandomLaw& law, const Tensor& device);

// The distance to the next number of a float dtype, not below that of x.
double spacing(DType dtype, double x);

}  // namespace assay::precheck
