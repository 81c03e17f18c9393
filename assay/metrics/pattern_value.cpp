// Patterns of values: one factor, one offset, one sign, one ceiling.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "assay/base/text.h"
#include "assay/metrics/pattern_sample.h"

namespace assay {
namespace {

constexpr std::int64_t kFewest = 4;  // elements a law can be read from

// The rest of a fit is what rounding to the dtype leaves, and the fit carries
// most of the error.
bool fits(double rest, double error, double gg, double unit) {
  if (rest <= 0.01 * error) return true;
  return rest <= 2.25 * unit * unit * gg && rest <= 0.5 * error;
}

bool near(double value, double wanted) {
  return std::fabs(value / wanted - 1) < 1e-3;
}

// sqrt(d) and 1/sqrt(d) for the head sizes that models have and the shape's
// last axis.
std::string root_name(const PatternSample& sample, double factor) {
  std::vector<std::int64_t> sizes = {32, 40, 48, 56, 72, 80, 96, 112, 128, 192};
  if (!sample.shape.empty()) sizes.push_back(sample.shape.back());
  for (const std::int64_t size : sizes) {
    const double root = std::sqrt(static_cast<double>(size));
    if (size < 2) continue;
    if (near(factor, root)) return fmt::format("sqrt({})", size);
    if (near(factor, 1 / root)) return fmt::format("1/sqrt({})", size);
  }
  return "";
}

std::string power_name(double factor) {
  const double exponent = std::log2(factor);
  const double whole = std::round(exponent);
  if (whole == 0 || std::fabs(exponent - whole) > 1e-3) return "";
  const int k = static_cast<int>(whole);
  return fmt::format("2^{}{}", k,
                     std::abs(k) >= 8 ? ", as a loss scale not undone" : "");
}

std::string integer_name(const PatternSample& sample, double factor) {
  for (const std::int64_t dim : sample.shape) {
    const auto size = static_cast<double>(dim);
    if (dim < 2) continue;
    if (near(factor, size)) return fmt::format("the axis size {}", dim);
    if (near(factor, 1 / size))
      return fmt::format("1/{}, an axis size: a sum against a mean", dim);
  }
  return "";
}

std::string factor_name(const PatternSample& sample, double factor) {
  const double magnitude = std::fabs(factor);
  std::string name = power_name(magnitude);
  if (name.empty()) name = root_name(sample, magnitude);
  if (name.empty()) name = integer_name(sample, magnitude);
  return name.empty() ? "" : fmt::format(" ({})", name);
}

}  // namespace

std::string detect_scale(const PatternSample& sample) {
  if (sample.gg == 0 || sample.size() < kFewest) return "";
  const double factor = sample.dot / sample.gg;
  const double explained = (factor - 1) * (factor - 1) * sample.gg;
  const double rest = std::max(sample.dd - explained, 0.0);
  if (factor == 0 || !fits(rest, sample.dd, sample.gg, sample.unit()))
    return "";
  return fmt::format("a constant factor: target = {:.6g} x golden{}", factor,
                     factor_name(sample, factor));
}

std::string detect_bias(const PatternSample& sample) {
  if (sample.size() < kFewest) return "";
  const auto count = static_cast<double>(sample.size());
  const double mean = sample.sum_d / count;
  const double rest = std::max(sample.dd - mean * mean * count, 0.0);
  if (!fits(rest, sample.dd, sample.gg, sample.unit())) return "";
  return fmt::format("a constant offset: target = golden {} {}",
                     mean < 0 ? "-" : "+", format_figure(std::fabs(mean)));
}

std::string detect_sign_flip(const PatternSample& sample) {
  std::int64_t flipped = 0;
  for (std::size_t i = 0; i < sample.golden.size(); ++i) {
    const double g = sample.golden[i], t = sample.target[i];
    if (g == t) continue;
    if (std::fabs(g + t) > 4 * sample.unit() * std::fabs(g)) return "";
    ++flipped;
  }
  if (flipped < std::min(kFewest, sample.size())) return "";
  return fmt::format("the sign is flipped in {} of {} elements", flipped,
                     sample.size());
}

// Clipping at the largest value of a narrower format.
std::string detect_saturation(const PatternSample& sample) {
  constexpr std::array<std::pair<double, const char*>, 6> kLimits = {{
      {6.0, "float4 e2m1"},
      {240.0, "float8 e4m3fnuz"},
      {448.0, "float8 e4m3"},
      {57344.0, "float8 e5m2"},
      {65504.0, "float16"},
      {3.3895313892515355e38, "bfloat16"},
  }};
  for (const auto& [limit, format] : kLimits) {
    std::int64_t clipped = 0;
    bool fits_all = true;
    for (std::size_t i = 0; i < sample.golden.size() && fits_all; ++i) {
      const double g = sample.golden[i], t = sample.target[i];
      fits_all = std::fabs(t) <= limit;
      if (g == t || std::fabs(g) <= limit) continue;
      fits_all = t == std::copysign(limit, g);
      clipped += fits_all;
    }
    if (fits_all && clipped > 0)
      return fmt::format("saturation at {}, the largest {} ({} elements)",
                         format_double(limit), format, clipped);
  }
  return "";
}

}  // namespace assay
