// Permutations: complete, and without pattern.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/metrics/distribution.h"
#include "assay/precheck/random/choice.h"

namespace assay::precheck {
namespace {

// A table of places by values needs as many in each cell on average.
constexpr double kPerCell = 50;
constexpr std::int64_t kMostBands = 16;

bool check_complete(Findings& findings, const std::vector<double>& x) {
  std::vector<bool> seen(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool inside = x[i] >= 0 && x[i] < static_cast<double>(x.size()) &&
                        x[i] == std::floor(x[i]);
    const bool twice = inside && seen[static_cast<std::size_t>(x[i])];
    if (inside && !twice) {
      seen[static_cast<std::size_t>(x[i])] = true;
      continue;
    }
    findings.require(
        false, "permutation",
        fmt::format("{} at {} {}, expected each of 0 to {} once", x[i], i,
                    twice ? "came before" : "is out of range", x.size() - 1),
        static_cast<std::int64_t>(i));
    return false;
  }
  return true;
}

// Which band of places each band of values went to. The margins are fixed:
// mean (bands - 1)^2 n / (n - 1), nearly chi-square of (bands - 1)^2.
void test_bands(Findings& findings, const std::vector<double>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::int64_t bands = std::min(
      kMostBands,
      static_cast<std::int64_t>(std::sqrt(static_cast<double>(n) / kPerCell)));
  if (bands < 2) return;
  const auto side = static_cast<std::size_t>(bands);
  std::vector<double> table(side * side);
  std::vector<double> size(side);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto row = static_cast<std::size_t>(i * bands / n);
    const auto value =
        static_cast<std::int64_t>(x[static_cast<std::size_t>(i)]);
    ++size[row];
    ++table[row * side + static_cast<std::size_t>(value * bands / n)];
  }
  double sum = 0;
  for (std::size_t r = 0; r < side; ++r)
    for (std::size_t c = 0; c < side; ++c) {
      const double expected = size[r] * size[c] / static_cast<double>(n);
      const double off = table[r * side + c] - expected;
      sum += off * off / expected;
    }
  const auto count = static_cast<double>(n);
  const auto freedom = static_cast<double>((bands - 1) * (bands - 1));
  findings.test(chi_square_p(sum * (count - 1) / count, freedom), "bands",
                fmt::format("chi-square {:.5g} of {} bands of places by "
                            "values",
                            sum, bands));
}

}  // namespace

void judge_permutation(Findings& findings, const Tensor& device) {
  const std::vector<double> x = elements(device);
  if (!check_complete(findings, x)) return;
  const auto n = static_cast<double>(x.size());
  std::int64_t stay = 0;
  std::vector<float> centred;
  for (std::size_t i = 0; i < x.size(); ++i) {
    stay += x[i] == static_cast<double>(i);
    centred.push_back(static_cast<float>((x[i] + 0.5) / n - 0.5));
  }
  // k fixed points are given with at most the chance 1 / k!.
  findings.test(std::exp(-log_gamma(static_cast<double>(stay) + 1)), "fixed",
                fmt::format("{} numbers at their own place", stay));
  test_bands(findings, x);
  test_lags(findings, centred, 1.0 / 12, 0.5, {});
  findings.enough(static_cast<std::int64_t>(x.size()), draws_needed(),
                  "numbers");
}

}  // namespace assay::precheck
