// Patterns of precision: rounding modes, downcasts, narrow accumulators,
// decisions that a rounding error tipped over.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/pattern_sample.h"
#include "assay/numerics/rounding.h"
#include "assay/numerics/ulp.h"

namespace assay {
namespace {

constexpr std::int64_t kEnough = 64;  // elements for a statement on shares

bool holds(DType dtype, double value) {
  return round_to(dtype, value) == value;
}

bool all_in(DType dtype, const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(),
                     [&](double v) { return holds(dtype, v); });
}

double percent(std::int64_t part, std::int64_t whole) {
  return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

// Every difference is one ulp, and all to one side.
std::string detect_rounding(const PatternSample& sample) {
  if (is_exact(sample.dtype) || sample.differing < kEnough) return "";
  std::int64_t to_zero = 0, down = 0;
  for (std::size_t i = 0; i < sample.golden.size(); ++i) {
    const double g = sample.golden[i], t = sample.target[i];
    if (g == t) continue;
    if (std::fabs(t - g) > ulp(sample.dtype, g)) return "";
    to_zero += std::fabs(t) < std::fabs(g);
    down += t < g;
  }
  const std::int64_t n = sample.differing;
  const double share = percent(n, sample.size());
  // Of evenly spread values one half would have rounded the other way; one ulp
  // on all of them is a scale factor.
  if (share < 20 || share > 80) return "";
  const char* mode = to_zero == n   ? "toward zero"
                     : to_zero == 0 ? "away from zero"
                     : down == n    ? "downwards"
                     : down == 0    ? "upwards"
                                    : nullptr;
  if (!mode) return "";
  return fmt::format(
      "rounding {} instead of to nearest: {:.0f} % of the "
      "elements are one ulp off, all to that side",
      mode, share);
}

std::string detect_output_downcast(const PatternSample& sample) {
  if (sample.size() < kEnough) return "";
  for (const DType narrow :
       {DType::kE4M3FN, DType::kE5M2, DType::kBF16, DType::kF16}) {
    if (unit_roundoff(narrow) <= sample.unit() || is_exact(sample.dtype))
      continue;
    if (!all_in(narrow, sample.target) || all_in(narrow, sample.golden))
      continue;
    return fmt::format(
        "the target went through {}: every value of it is one, "
        "the golden's are not",
        traits(narrow).name);
  }
  return "";
}

// fp32 results with the error of a narrower input: a product of two inputs
// rounded to u has an error of about u / 2 of the result. Only of products: any
// noise of that size that came in from upstream would look the same.
std::string detect_input_downcast(const PatternSample& sample) {
  if (sample.op != OpClass::kGemm || sample.gg == 0 || sample.unit() > 0x1p-24)
    return "";
  const double norm = std::sqrt(sample.dd / sample.gg);
  constexpr std::array<std::pair<DType, const char*>, 2> kInputs = {{
      {DType::kBF16, "bfloat16"},
      {DType::kF16, "TF32 or float16"},
  }};
  for (const auto& [narrow, name] : kInputs) {
    const double u = unit_roundoff(narrow);
    if (norm < u / 8 || norm > u) continue;
    return fmt::format(
        "inputs rounded to {}: the relative error {} is of the "
        "size of its unit roundoff {}",
        name, format_figure(norm), format_figure(u));
  }
  return "";
}

// A sum of one sign in a narrow accumulator stalls: results fall short and are
// numbers of the narrow format.
std::string detect_accumulator(const PatternSample& sample) {
  if (sample.op != OpClass::kGemm && sample.op != OpClass::kReduction)
    return "";
  std::int64_t wrong = 0, short_of = 0;
  for (std::size_t i = 0; i < sample.golden.size(); ++i) {
    const double g = sample.golden[i], t = sample.target[i];
    if (std::fabs(t - g) <= 2 * unit_roundoff(DType::kBF16) * std::fabs(g))
      continue;
    ++wrong;
    short_of += std::fabs(t) < std::fabs(g) && g * t > 0;
    if (!holds(DType::kBF16, t)) return "";
  }
  if (wrong == 0 || percent(short_of, wrong) < 95) return "";
  return fmt::format(
      "a bfloat16 accumulator: {} results fall short and are "
      "bfloat16 numbers, as a sum that stalls",
      wrong);
}

// Whole steps in a few places, equality elsewhere.
std::string detect_discontinuity(const PatternSample& sample) {
  if (sample.size() < kEnough || percent(sample.differing, sample.size()) > 1)
    return "";
  for (std::size_t i = 0; i < sample.golden.size(); ++i) {
    const double d = sample.target[i] - sample.golden[i];
    if (d != std::round(d)) return "";
  }
  return fmt::format(
      "a decision tipped over (floor, argmax, comparison): {} "
      "elements differ by whole steps, the others are equal",
      sample.differing);
}

}  // namespace assay
