// Bernoulli's zeros and ones, of one chance or of one chance an element.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/metrics/distribution.h"
#include "assay/precheck/random/dropout.h"

namespace assay::precheck {
namespace {

constexpr std::size_t kGroups = 16;

bool check_values(Findings& findings, const Parameter& p,
                  const std::vector<double>& x) {
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    const double chance = p.at(i);
    if (!(chance >= 0 && chance <= 1))
      throw Error(Code::kUsage,
                  fmt::format("bernoulli: chance {} at {}", chance, i));
    const bool coin = x[k] == 0 || x[k] == 1;
    const bool certain = chance == 0 || chance == 1;
    if (coin && (!certain || x[k] == chance)) continue;
    findings.require(
        false, "range",
        fmt::format("{} at {} where the chance of 1 is {}", x[k], i, chance),
        i);
    return false;
  }
  return true;
}

// Elements of about the same chance together, and neighbours together.
void test_groups(Findings& findings, const Parameter& p,
                 const std::vector<double>& x) {
  double off[2][kGroups] = {}, variance[2][kGroups] = {};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double chance = p.at(static_cast<std::int64_t>(i));
    const std::size_t group[2] = {
        std::min(kGroups - 1, static_cast<std::size_t>(chance * kGroups)),
        i * kGroups / x.size()};
    for (int k = 0; k < 2; ++k) {
      off[k][group[k]] += x[i] - chance;
      variance[k][group[k]] += chance * (1 - chance);
    }
  }
  double worst = 1;
  std::string text = "as many ones as expected in every group";
  for (int k = 0; k < 2; ++k)
    for (std::size_t g = 0; g < kGroups; ++g) {
      const double one = bernstein_p(std::abs(off[k][g]), variance[k][g], 1);
      if (one >= worst) continue;
      worst = one;
      text = fmt::format(
          "{:.1f} ones more than expected among {} sixteenth "
          "{}",
          off[k][g], k ? "the elements of" : "chances of", g + 1);
    }
  findings.test(worst * 2 * kGroups, "share", std::move(text));
}

}  // namespace

void judge_bernoulli(Findings& findings, const Parameter& p,
                     const Tensor& device) {
  if (is_complex(device.dtype()))
    throw Error(Code::kUsage, "bernoulli: complex numbers");
  const std::vector<double> x = elements(device);
  if (!check_values(findings, p, x)) return;
  std::vector<float> centred;
  std::vector<std::uint8_t> coins;
  double most = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double chance = p.at(static_cast<std::int64_t>(i));
    centred.push_back(static_cast<float>(x[i] - chance));
    most = std::max(most, chance * (1 - chance));
    if (chance > 0 && chance < 1) coins.push_back(x[i] == 1);
  }
  if (coins.empty())
    return findings.note("law", "nothing to draw: every chance is 0 or 1");
  if (p.constant())
    test_coins(findings, coins, p.value, "ones");
  else
    test_groups(findings, p, x);
  test_lags(findings, centred, most, 1, device.shape());
  findings.enough(static_cast<std::int64_t>(coins.size()),
                  coins_needed(p.constant() ? p.value : 0.5), "draws");
}

}  // namespace assay::precheck
