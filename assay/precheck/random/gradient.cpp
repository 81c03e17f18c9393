// Gradients through what was drawn, by the draw itself.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/numerics/element.h"
#include "assay/precheck/random/choice.h"
#include "assay/precheck/random/dropout.h"
#include "assay/precheck/random/law.h"

namespace assay::precheck {
namespace {

// The factor of each element's gradient; NaN: 0 or the dropout's scale, the
// output does not tell which.
using Factors = std::vector<double>;

Factors dropout_factors(Findings& findings, const Dropout& dropout,
                        const Tensor& output) {
  if (!dropout.draws())
    return Factors(static_cast<std::size_t>(output.numel()),
                   dropout.training && dropout.p == 1 ? 0 : 1);
  std::vector<Fate> all = fates(findings, dropout, output);
  if (!findings.failed()) share_fates(findings, dropout, all);
  Factors factors;
  for (const Fate fate : all)
    factors.push_back(fate == Fate::kDropped ? 0
                      : fate == Fate::kKept  ? dropout.scale()
                                             : std::nan(""));
  return factors;
}

bool near(double a, double b, double tolerance) {
  return std::abs(a - b) <= tolerance;
}

void compare(Findings& findings, const Factors& factors, double scale,
             const Tensor& given, const Tensor& gradient) {
  const std::vector<double> g = elements(given), found = elements(gradient);
  const double u = unit_roundoff(gradient.dtype());
  std::int64_t told = 0, unknown = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!std::isfinite(g[i])) continue;
    const double kept = g[i] * scale;
    const bool open = std::isnan(factors[i]);
    const double expected = open ? kept : g[i] * factors[i];
    const double tolerance =
        2.02 * u * std::abs(expected) + min_positive(gradient.dtype());
    const bool good =
        near(found[i], expected, tolerance) || (open && found[i] == 0) ||
        (std::isinf(found[i]) && found[i] * expected > 0 &&
         std::abs(expected) + tolerance > max_finite(gradient.dtype()));
    unknown += open;
    told += !open && g[i] != 0;
    findings.require(
        good, "gradient",
        fmt::format("{:.9g} at {} of the gradient {:.9g}, "
                    "expected {:.9g}{}",
                    found[i], i, g[i], expected, open ? " or 0" : ""),
        static_cast<std::int64_t>(i));
    if (!good) return;
  }
  if (told == 0)
    findings.incomplete("gradient",
                        "no element has a gradient and a draw "
                        "that can be told");
  if (unknown > 0)
    findings.note("unknown", fmt::format("{} elements whose draw the output "
                                         "does not tell",
                                         unknown));
}

// y = slope x below 0, so the slope is y / x within the roundings of both.
void compare_slopes(Findings& findings, const Rrelu& rrelu,
                    const Tensor& output, const Tensor& given,
                    const Tensor& gradient) {
  const std::vector<double> x = elements(*rrelu.input), y = elements(output);
  const std::vector<double> g = elements(given), found = elements(gradient);
  const DType dtype = gradient.dtype();
  std::int64_t told = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (!std::isfinite(g[i]) || !std::isfinite(x[i]) || x[i] == 0) continue;
    const double slope = x[i] < 0 ? y[i] / x[i] : 1;
    const double rounding = x[i] < 0
                                ? spacing(dtype, y[i]) / -x[i] +
                                      3 * unit_roundoff(dtype) * std::abs(slope)
                                : 0;
    const bool good =
        near(found[i], g[i] * slope,
             std::abs(g[i]) * rounding + (x[i] < 0 ? min_positive(dtype) : 0));
    told += x[i] < 0 && g[i] != 0;
    findings.require(good, "gradient",
                     fmt::format("{:.9g} at {} of the gradient {:.9g}, "
                                 "expected {:.9g} by the slope of the output",
                                 found[i], i, g[i], g[i] * slope),
                     static_cast<std::int64_t>(i));
    if (!good) return;
  }
  if (told == 0)
    findings.incomplete("gradient", "no negative element has a gradient");
}

// Operators that overwrite their input: nothing comes back through them.
bool fills(const RandomCall& call, const std::string& name) {
  if (!is_in_place(call.api)) return false;
  for (const char* each :
       {"bernoulli", "cauchy", "exponential", "geometric", "log_normal",
        "normal", "random", "uniform", "trunc_normal"})
    if (name == each) return true;
  return false;
}

void judge_gradient(Findings& findings, const RandomCall& call,
                    const std::string& name, const Tensor& output,
                    const Tensor& given, const Tensor& gradient) {
  const bool same =
      given.shape() == output.shape() && gradient.shape() == output.shape();
  findings.require(same, "shape",
                   "output " + to_string(output.shape()) + ", gradients " +
                       to_string(given.shape()) + " and " +
                       to_string(gradient.shape()));
  findings.require(is_float(gradient.dtype()) && is_float(given.dtype()) &&
                       gradient.dtype() == output.dtype(),
                   "dtype", "the gradient's is not the output's");
  if (findings.failed()) return;
  if (const auto dropout = find_dropout(call, name)) {
    if (dropout->input->shape() != output.shape())
      throw Error(Code::kUsage, std::string(call.api) +
                                    ": the output has not the input's shape");
    const Factors factors = dropout_factors(findings, *dropout, output);
    if (findings.failed()) return;
    return compare(findings, factors, dropout->draws() ? dropout->scale() : 1,
                   given, gradient);
  }
  if (name == "rrelu" || name == "rrelu_with_noise") {
    const Rrelu rrelu = read_rrelu(call, name != "rrelu");
    if (rrelu.draws() && rrelu.input->shape() == output.shape() &&
        is_float(rrelu.input->dtype()))
      return compare_slopes(findings, rrelu, output, given, gradient);
  }
  if (fills(call, name))
    return compare(findings,
                   Factors(static_cast<std::size_t>(output.numel()), 0), 1,
                   given, gradient);
  findings.incomplete("gradient", "how it hangs on the draw is not known");
}

}  // namespace

Judgement judge_random_gradient(const RandomCall& call, const Tensor& output,
                                const Tensor& given, const Tensor& gradient) {
  Findings findings;
  if (output.numel() == 0 && gradient.numel() == 0 &&
      output.shape() == gradient.shape())
    return {Verdict::kEmpty, {}};
  try {
    judge_gradient(findings, call, random_name(call.api), output, given,
                   gradient);
  } catch (const Error& error) {
    findings.incomplete("arguments", error.what());
  }
  return findings.judgement();
}

}  // namespace assay::precheck
