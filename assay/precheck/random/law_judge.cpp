// Numbers of a tensor as places of their law, and the tests of those.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "assay/base/error.h"
#include "assay/metrics/distribution.h"
#include "assay/numerics/element.h"
#include "assay/precheck/random/law.h"

namespace assay::precheck {
namespace {

// Judged at a time: each part has the tests' whole number of elements.
constexpr std::size_t kPart = std::size_t{1} << 24;
// How fine a generator's u must be.
constexpr double kGrain = 0x1p-23;

// x as the dtype has it, to nearest.
double rounded(DType dtype, double x) {
  return is_float(dtype) ? decode_float(dtype, encode_float(dtype, x)) : x;
}

// A value outside what the law has, by more than the bound's own rounding.
bool outside(const RandomLaw& law, DType dtype, double x) {
  const double least = std::min(law.least, rounded(dtype, law.least));
  const double most = std::max(law.most, rounded(dtype, law.most));
  if (x < least || x > most) return true;
  // Whole numbers just below it may have been rounded to it.
  const double last = is_float(dtype) ? spacing(dtype, law.most) : 1;
  const bool coarse = law.integers && (last > 1 || law.most > 0x1p53);
  return x == law.most && !law.most_belongs && !coarse;
}

// Infinities are draws beyond the largest number, where the law has such.
bool overflows(const RandomLaw& law, DType dtype, double x, std::int64_t i,
               double n) {
  if (!std::isinf(x) || !is_float(dtype)) return false;
  const double edge = std::copysign(max_finite(dtype), x);
  const double u = law.cdf(edge, i);
  return n * (x > 0 ? 1 - u : u) > kLevel;
}

Place place_of(const RandomLaw& law, DType dtype, double x, std::int64_t i) {
  const auto clamped = [&](double u) {
    if (!std::isnan(u)) return std::clamp(u, 0.0, 1.0);
    throw Error(Code::kUsage,
                "there is no law with these arguments: " + law.text);
  };
  if (std::isinf(x)) {
    const double edge = law.cdf(std::copysign(max_finite(dtype), x), i);
    return x > 0 ? Place{clamped(edge), 1} : Place{0, clamped(edge)};
  }
  const double gap = spacing(dtype, x);
  if (law.integers) {  // what rounds to x: more than x where gap is above 1
    const double wide = gap > 1 ? gap : 0;
    return {clamped(law.cdf(x - wide - 1, i)), clamped(law.cdf(x + wide, i))};
  }
  const double wide =
      std::max(gap, law.grain * unit_roundoff(component(dtype)));
  return {clamped(law.cdf(x - wide, i) - kGrain),
          clamped(law.cdf(x + wide, i) + kGrain)};
}

bool check_values(Findings& findings, const RandomLaw& law, DType dtype,
                  const std::vector<double>& x) {
  const auto n = static_cast<double>(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    const auto bad = [&](const char* criterion, const std::string& expected) {
      findings.require(
          false, criterion,
          fmt::format("{:.17g} at {}, expected {}", x[k], i, expected), i);
      return false;
    };
    if (law.fixed)
      if (const std::optional<double> value = law.fixed(i)) {
        if (std::abs(x[k] - *value) <= spacing(dtype, *value)) continue;
        return bad("fixed", fmt::format("{:.17g}, of no spread", *value));
      }
    if (!std::isfinite(x[k]) && !overflows(law, dtype, x[k], i, n))
      return bad("finite", "a finite number");
    if (std::isinf(x[k])) continue;
    if (outside(law, dtype, x[k])) return bad("range", law.text);
    if (law.integers && x[k] != std::floor(x[k]))
      return bad("integer", "a whole number");
  }
  return true;
}

// The least significant digit of whole numbers: what a modulo, or a multiply
// of too few bits, leaves uneven.
void test_low_digits(Findings& findings, const RandomLaw& law,
                     const std::vector<double>& x) {
  constexpr double kDigits = 64, kPerDigit = 50;
  const double range = law.most - law.least;
  const auto n = static_cast<double>(x.size());
  if (!(range >= 2) || range > 0x1p53) return;
  const double digits = std::floor(std::min({range, kDigits, n / kPerDigit}));
  if (digits < 2) return;
  std::vector<double> found(static_cast<std::size_t>(digits));
  for (const double value : x)
    ++found[static_cast<std::size_t>(std::fmod(value - law.least, digits))];
  double sum = 0;
  for (double d = 0; d < digits; ++d) {
    // Numbers below `range` that end with this digit.
    const double share = (std::floor((range - 1 - d) / digits) + 1) / range;
    const double off = found[static_cast<std::size_t>(d)] - n * share;
    sum += off * off / (n * share);
  }
  findings.test(
      chi_square_p(sum, digits - 1), "digits",
      fmt::format("chi-square {:.5g} of the numbers modulo {}", sum, digits));
}

void judge_part(Findings& findings, const RandomLaw& law, DType dtype,
                const std::vector<double>& x, std::int64_t begin,
                std::int64_t count, const Shape& shape) {
  Places places;
  std::vector<float> centred;
  std::vector<std::uint64_t> codes;
  for (std::int64_t i = begin; i < begin + count; ++i) {
    if (law.fixed && law.fixed(i)) continue;
    const double value = x[static_cast<std::size_t>(i)];
    places.push_back(place_of(law, dtype, value, i));
    centred.push_back(static_cast<float>(places.back().middle() - 0.5));
    if (law.alike) codes.push_back(std::bit_cast<std::uint64_t>(value));
  }
  if (places.empty()) return;
  test_law(findings, places, law.integers);
  const bool whole = places.size() == static_cast<std::size_t>(count);
  test_lags(findings, centred, 1.0 / 12, 0.5, whole ? shape : Shape{});
  if (law.alike) test_repeats(findings, codes, collision_chance(codes));
  if (law.alike && law.integers && spacing(dtype, law.most) <= 1)
    test_low_digits(
        findings, law,
        std::vector<double>(x.begin() + begin, x.begin() + begin + count));
}

}  // namespace

void judge_law(Findings& findings, const RandomLaw& law, const Tensor& device) {
  const std::vector<double> x = elements(device);
  const DType dtype = component(device.dtype());
  if (!check_values(findings, law, dtype, x)) return;
  std::int64_t spread = 0;
  const auto n = static_cast<std::int64_t>(x.size());
  for (std::int64_t i = 0; i < n; ++i) spread += !law.fixed || !law.fixed(i);
  const auto parts = static_cast<std::int64_t>((x.size() + kPart - 1) / kPart);
  findings.split(parts);
  Shape shape = device.shape();
  if (is_complex(device.dtype())) shape.push_back(2);
  for (std::int64_t p = 0; p < parts; ++p) {
    const std::int64_t begin = n * p / parts, end = n * (p + 1) / parts;
    judge_part(findings, law, dtype, x, begin, end - begin, shape);
  }
  findings.split(1);
  if (spread > 0) findings.enough(spread, draws_needed(), "draws");
  findings.note("law", law.text);
}

}  // namespace assay::precheck
