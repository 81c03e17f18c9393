// Patterns of formulas: which variant of a function each side computed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "assay/base/text.h"
#include "assay/metrics/pattern_sample.h"

namespace assay {
namespace {

struct Variant {
  const char* name;
  double (*f)(double);
};

// Hendrycks and Gimpel, Gaussian Error Linear Units, and its approximations.
constexpr std::array<Variant, 3> kGelu = {{
    {"erf", [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); }},
    {"tanh",
     [](double x) {
       constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
       return 0.5 * x * (1 + std::tanh(kRoot * (x + 0.044715 * x * x * x)));
     }},
    {"sigmoid(1.702 x)",
     [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
}};

// The variant nearest to `side`, if it is far nearer than the next one. Judged
// where x < -1, in units of the dtype: there the variants differ by many.
const char* nearest_variant(const PatternSample& sample,
                            const std::vector<double>& side) {
  std::array<double, kGelu.size()> error{};
  for (std::size_t i = 0; i < side.size(); ++i) {
    const double x = sample.input[i];
    if (!(x < -1)) continue;
    for (std::size_t v = 0; v < kGelu.size(); ++v) {
      const double y = kGelu[v].f(x);
      const double d = (side[i] - y) / (sample.unit() * std::fabs(y) + 1e-6);
      error[v] += d * d;
    }
  }
  std::size_t best = 0;
  for (std::size_t v = 1; v < error.size(); ++v)
    if (error[v] < error[best]) best = v;
  for (std::size_t v = 0; v < error.size(); ++v)
    if (v != best && error[v] <= 2 * error[best]) return nullptr;
  return kGelu[best].name;
}

// erf and tanh GELU differ most at x = -2.70, by 4.73e-4, where GELU is
// -0.0094. Outputs below -0.03 or above 0 are too coarse in 16 bits to show
// it: they may differ by that much and their rounding.
std::string gelu_by_output(const PatternSample& sample) {
  constexpr double kMost = 4.8e-4;
  double worst = 0, where = 0, direction = 0;
  for (std::size_t i = 0; i < sample.golden.size(); ++i) {
    const double g = sample.golden[i], d = sample.target[i] - g;
    const double rounding = 2 * sample.unit() * std::fabs(g);
    if (std::fabs(d) > kMost + rounding) return "";
    if (g >= 0 || g < -0.03 || std::fabs(d) <= worst) continue;
    worst = std::fabs(d);
    where = g;
    direction = d;
  }
  if (worst < 1e-4 || where > -0.003) return "";
  return fmt::format(
      "another GELU variant: the error peaks at {} where GELU is {} (erf and "
      "tanh differ most there, at x = -2.7); {}",
      format_figure(worst), format_figure(where),
      direction > 0 ? "golden erf, target tanh" : "golden tanh, target erf");
}

}  // namespace

std::string detect_gelu(const PatternSample& sample) {
  if (sample.api.find("gelu") == std::string::npos) return "";
  if (sample.input.empty()) return gelu_by_output(sample);
  const char* golden = nearest_variant(sample, sample.golden);
  const char* target = nearest_variant(sample, sample.target);
  if (!golden || !target || golden == target) return gelu_by_output(sample);
  return fmt::format("another GELU variant: golden {}, target {}", golden,
                     target);
}

// A rotation of pairs keeps each row's norm, whatever the pairs and angles.
std::string detect_rotation(const PatternSample& sample) {
  if (sample.shape.size() < 2 || sample.shape.back() < 4) return "";
  const std::int64_t d = sample.shape.back();
  const double tolerance = 4 * sample.unit();
  double worst = 0;
  for (std::int64_t row = 0; row < sample.size(); row += d) {
    double g2 = 0, t2 = 0;
    for (std::int64_t j = row; j < row + d; ++j) {
      const auto i = static_cast<std::size_t>(j);
      g2 += sample.golden[i] * sample.golden[i];
      t2 += sample.target[i] * sample.target[i];
    }
    if (g2 != t2)
      worst = std::max(worst, std::fabs(t2 - g2) / std::max(g2, t2));
    if (worst > tolerance) return "";
  }
  const bool large = sample.dd > 64 * tolerance * tolerance * sample.gg;
  if (!large) return "";
  return "every row of the last axis keeps its norm: a rotation, as when RoPE "
         "pairs halves against neighbours or takes other angles";
}

}  // namespace assay
