// Patterns of place: where in the tensor the wrong elements are.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "assay/base/text.h"
#include "assay/metrics/pattern_sample.h"

namespace assay {
namespace {

// Flat positions in the window whose error is beyond rounding: over four units
// of the element and of the tensor's rms. Capped: enough to see a pattern.
std::vector<std::int64_t> wrong_elements(const PatternSample& sample) {
  const double rms = std::sqrt(sample.gg / static_cast<double>(sample.size()));
  const double unit = 4 * sample.unit();
  std::vector<std::int64_t> wrong;
  for (std::int64_t i = 0; i < sample.size(); ++i) {
    const double g = sample.golden[static_cast<std::size_t>(i)];
    const double d = sample.target[static_cast<std::size_t>(i)] - g;
    if (std::fabs(d) > unit * std::max(std::fabs(g), rms)) wrong.push_back(i);
  }
  return wrong;
}

// The common ratio target / golden over `places`; 0 when there is none.
double common_ratio(const PatternSample& sample,
                    const std::vector<std::int64_t>& places) {
  double ratio = 0;
  for (const std::int64_t place : places) {
    const auto i = static_cast<std::size_t>(place);
    if (sample.golden[i] == 0) return 0;
    const double r = sample.target[i] / sample.golden[i];
    if (ratio == 0) ratio = r;
    if (std::fabs(r - ratio) > (8 * sample.unit() + 1e-6) * std::fabs(ratio))
      return 0;
  }
  return ratio;
}

std::string ratio_text(double ratio) {
  return ratio == 0 ? "" : fmt::format(", off by the factor {:.4g}", ratio);
}

}  // namespace

std::string detect_all_zero(const PatternSample& sample) {
  if (sample.tt == 0 && sample.gg > 0 && sample.whole)
    return "the target was never written: it is all zero";
  return "";
}

// From some index to the end the target is one value, the golden is not.
std::string detect_tail(const PatternSample& sample) {
  const auto& t = sample.target;
  const std::int64_t size = sample.size();
  if (!sample.whole || size < 8) return "";
  std::int64_t from = size - 1;
  while (from > 0 && t[static_cast<std::size_t>(from - 1)] == t.back()) --from;
  if (from == 0 || size - from < std::max<std::int64_t>(4, size / 64))
    return "";
  std::int64_t wrong_before = 0, wrong_after = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (sample.golden[at] == t[at]) continue;
    ++(i < from ? wrong_before : wrong_after);
  }
  if (wrong_before > 0 || 2 * wrong_after < size - from) return "";
  return fmt::format(
      "an unwritten tail: from flat index {} on the target is "
      "{} throughout",
      from, format_double(t.back()));
}

std::string detect_one_element(const PatternSample& sample) {
  if (sample.size() < 8) return "";
  const std::vector<std::int64_t> wrong = wrong_elements(sample);
  if (wrong.size() != 1) return "";
  const auto i = static_cast<std::size_t>(wrong[0]);
  return fmt::format("one bad element, at flat index {}: golden {}, target {}",
                     sample.begin + wrong[0], format_double(sample.golden[i]),
                     format_double(sample.target[i]));
}

// All wrong elements share one index of one axis and fill half of that slice.
std::string detect_one_slice(const PatternSample& sample) {
  const std::vector<std::int64_t> wrong = wrong_elements(sample);
  if (wrong.size() < 2 || sample.shape.size() < 2) return "";
  const Shape strides = contiguous_strides(sample.shape);
  for (std::size_t axis = 0; axis < sample.shape.size(); ++axis) {
    const std::int64_t dim = sample.shape[axis];
    const auto index = [&](std::int64_t flat) {
      return flat / strides[axis] % dim;
    };
    const std::int64_t first = index(wrong[0]);
    const bool same = std::all_of(wrong.begin(), wrong.end(),
                                  [&](auto i) { return index(i) == first; });
    const auto filled = static_cast<std::int64_t>(2 * wrong.size());
    if (!same || dim < 2 || filled < sample.size() / dim) continue;
    const std::int64_t offset =
        axis == 0 ? sample.begin / std::max<std::int64_t>(strides[0], 1) : 0;
    return fmt::format("one slice only: index {} of axis {} ({} elements){}",
                       first + offset, axis, wrong.size(),
                       ratio_text(common_ratio(sample, wrong)));
  }
  return "";
}

// All wrong elements lie in one aligned block: the unit that shares a scale.
std::string detect_one_block(const PatternSample& sample) {
  const std::vector<std::int64_t> wrong = wrong_elements(sample);
  for (const std::int64_t block : {16, 32, 128}) {
    if (wrong.size() < 2 || sample.size() < 2 * block) return "";
    const std::int64_t first = (sample.begin + wrong.front()) / block;
    const std::int64_t last = (sample.begin + wrong.back()) / block;
    const auto filled = static_cast<std::int64_t>(2 * wrong.size());
    if (first != last || filled < block) continue;
    const double ratio = common_ratio(sample, wrong);
    return fmt::format("one block of {} at flat index {}{}{}", block,
                       first * block, ratio_text(ratio),
                       ratio == 0 ? "" : ": a stale or wrong block scale");
  }
  return "";
}

}  // namespace assay
