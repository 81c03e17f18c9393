#include "assay/precheck/random/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "assay/base/error.h"
#include "assay/metrics/distribution.h"
#include "assay/numerics/element.h"
#include "assay/precheck/random/law.h"

namespace assay::precheck {
namespace {

[[noreturn]] void refuse(const RandomCall& call, const char* expected) {
  throw Error(Code::kUsage, std::string(call.api) + ": expected " + expected);
}

// Rows of categories: how often each group of categories was chosen against
// its chance. Groups are 16 bands of the category's number, and of its chance.
class Choices {
 public:
  // `u`: unit roundoff of the weights. In so many cases two categories come
  // out equal, and the choice says nothing.
  explicit Choices(double u) : unclear_(2 * u) {}
  void tie() { ++ties_; }

  // One row's chances, and how often each category came in so many
  // independent trials.
  void add(const std::vector<double>& chances, const std::vector<double>& found,
           double trials) {
    double sum[2][kGroups] = {};
    for (std::size_t c = 0; c < chances.size(); ++c) {
      const double p = chances[c];
      const std::size_t group[2] = {c * kGroups / chances.size(),
                                    chance_group(p)};
      for (int k = 0; k < 2; ++k) {
        sum[k][group[k]] += p;
        off_[k][group[k]] += found[c] - trials * p;
      }
    }
    for (int k = 0; k < 2; ++k)
      for (std::size_t g = 0; g < kGroups; ++g)
        variance_[k][g] += trials * std::max(0.0, sum[k][g] * (1 - sum[k][g]));
    trials_ += static_cast<std::int64_t>(trials);
  }

  void judge(Findings& findings) const {
    double worst = 1;
    std::string text = "every band of categories as often as expected";
    for (int k = 0; k < 2; ++k)
      for (std::size_t g = 0; g < kGroups; ++g) {
        const auto trials = static_cast<double>(trials_);
        const double off = std::abs(off_[k][g]) - ties_ - unclear_ * trials;
        // Sums of chances are 1 to some roundings.
        if (off < 1e-6 * (trials + 1)) continue;
        const double p = bernstein_p(off, variance_[k][g], 1);
        if (p >= worst) continue;
        worst = p;
        text = fmt::format("{:+.1f} choices too many in band {} of {}",
                           off_[k][g], g + 1,
                           k ? "chances, 1/2 to 1 the first" : "categories");
      }
    findings.test(worst * 2 * kGroups, "frequencies", std::move(text));
    findings.enough(trials_, draws_needed(), "choices");
  }

 private:
  static constexpr std::size_t kGroups = 16;
  static std::size_t chance_group(double p) {
    const double depth = p > 0 ? -std::log2(p) : kGroups;
    return static_cast<std::size_t>(std::clamp(depth, 0.0, kGroups - 1.0));
  }
  double off_[2][kGroups] = {}, variance_[2][kGroups] = {};
  std::int64_t trials_ = 0;
  double unclear_, ties_ = 0;
};

std::vector<double> row_of(const std::vector<double>& all, std::size_t row,
                           std::size_t size) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(row * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// Divided by their sum; false where there are no such chances.
bool normalise(std::vector<double>& chances) {
  const double sum = std::accumulate(chances.begin(), chances.end(), 0.0);
  if (!(sum > 0) || std::isinf(sum)) return false;
  if (*std::min_element(chances.begin(), chances.end()) < 0) return false;
  for (double& p : chances) p /= sum;
  return true;
}

bool softmax(std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  for (double& x : logits) x = std::exp(x - most);
  return normalise(logits);
}

// Rows along a dimension: how to walk them.
struct Rows {
  std::int64_t outer = 1, size = 1, inner = 1;
  std::vector<double> take(const std::vector<double>& all,
                           std::int64_t row) const {
    std::vector<double> out;
    const std::int64_t begin = row / inner * size * inner + row % inner;
    for (std::int64_t c = 0; c < size; ++c)
      out.push_back(all[static_cast<std::size_t>(begin + c * inner)]);
    return out;
  }
};

Rows rows_along(const Shape& shape, std::int64_t dim) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  Rows rows;
  if (dim < 0) dim += rank;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t size = shape[static_cast<std::size_t>(d)];
    (d < dim ? rows.outer : d == dim ? rows.size : rows.inner) *= size;
  }
  return rows;
}

// The category of a row; -1: the row is no one-hot vector, or two are equal.
std::int64_t chosen(Findings& findings, const std::vector<double>& row,
                    bool hard, double u, std::int64_t at) {
  const auto most = std::max_element(row.begin(), row.end());
  const double sum = std::accumulate(row.begin(), row.end(), 0.0);
  bool good = std::isfinite(sum);
  const auto terms = static_cast<double>(row.size());
  for (const double x : row)
    good &=
        x >= 0 && (!hard || std::abs(x) <= 4 * u || std::abs(x - 1) <= 4 * u);
  good &= std::abs(sum - 1) <= (hard ? 8 : terms + 4) * u;
  findings.require(good, "row",
                   fmt::format("row {} adds up to {:.9g}, expected {}", at, sum,
                               hard ? "a single 1" : "shares of 1"),
                   at);
  if (!good || std::count(row.begin(), row.end(), *most) > 1) return -1;
  return most - row.begin();
}

}  // namespace

void judge_multinomial(Findings& findings, const RandomCall& call,
                       const Tensor& device) {
  const RandomArguments arguments(call);
  const Tensor* weights = arguments.tensor(0, {"input", "self"});
  const std::optional<bool> again = arguments.flag(2, {"replacement"}, false);
  if (!weights || !again || weights->shape().empty() ||
      weights->shape().size() != device.shape().size())
    refuse(call, "weights of one or two dimensions and as many of the result");
  const auto classes = static_cast<std::size_t>(weights->shape().back());
  const auto samples = static_cast<std::size_t>(device.shape().back());
  const std::vector<double> all = elements(*weights), found = elements(device);
  const std::size_t rows = classes ? all.size() / classes : 0;
  if (rows * samples != found.size()) refuse(call, "a row for each of weights");
  Choices choices(unit_roundoff(weights->dtype()));
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<double> chances = row_of(all, r, classes), counts(classes);
    if (!normalise(chances)) refuse(call, "weights of a finite sum above 0");
    std::unordered_set<double> seen;
    for (std::size_t k = 0; k < samples; ++k) {
      const double x = found[r * samples + k];
      const auto at = static_cast<std::int64_t>(r * samples + k);
      const bool inside = x >= 0 && x < static_cast<double>(classes);
      const auto index = inside ? static_cast<std::size_t>(x) : 0;
      findings.require(inside && chances[index] > 0, "range",
                       fmt::format("{} at {} has no weight", x, at), at);
      findings.require(
          *again || seen.insert(x).second, "distinct",
          fmt::format("{} at {} came before, without replacement", x, at), at);
      if (findings.failed()) return;
      // Without replacement the first alone has these chances.
      if (*again || k == 0) ++counts[index];
    }
    if (samples > 0)
      choices.add(chances, counts, *again ? static_cast<double>(samples) : 1);
  }
  choices.judge(findings);
}

void judge_gumbel_softmax(Findings& findings, const RandomCall& call,
                          const Tensor& device) {
  const RandomArguments arguments(call);
  const Tensor* logits = arguments.tensor(0, {"logits"});
  const std::optional<bool> hard = arguments.flag(2, {"hard"}, false);
  const std::optional<double> dim = arguments.number(4, {"dim"}, -1.0);
  const auto rank = static_cast<double>(device.shape().size());
  if (!logits || !hard || !dim || logits->shape() != device.shape() ||
      !(*dim >= -rank && *dim < rank))
    refuse(call, "logits of the result's shape, hard and dim");
  const Rows rows = rows_along(device.shape(), static_cast<std::int64_t>(*dim));
  const std::vector<double> x = elements(*logits), y = elements(device);
  const double u = unit_roundoff(device.dtype());
  Choices choices(u);
  for (std::int64_t r = 0; r < rows.outer * rows.inner; ++r) {
    const std::int64_t choice = chosen(findings, rows.take(y, r), *hard, u, r);
    if (findings.failed()) return;
    if (choice < 0) {
      choices.tie();
      continue;
    }
    std::vector<double> chances = rows.take(x, r), counts(chances.size());
    if (!softmax(chances)) refuse(call, "logits below infinity");
    ++counts[static_cast<std::size_t>(choice)];
    choices.add(chances, counts, 1);
  }
  choices.judge(findings);
}

Rrelu read_rrelu(const RandomCall& call, bool with_noise) {
  const RandomArguments arguments(call);
  const int at = with_noise ? 2 : 1;
  const Tensor* input = arguments.tensor(0, {"input", "self"});
  const auto lower = arguments.number(at, {"lower"}, 1.0 / 8);
  const auto upper = arguments.number(at + 1, {"upper"}, 1.0 / 3);
  const auto training = arguments.flag(at + 2, {"training"}, false);
  if (!input || !lower || !upper || !training)
    refuse(call, "an input, lower, upper and training");
  return {input, *lower, *upper, *training};
}

void judge_rrelu(Findings& findings, const RandomCall& call, bool with_noise,
                 const Tensor& device) {
  const Rrelu rrelu = read_rrelu(call, with_noise);
  if (rrelu.input->shape() != device.shape() || !is_float(device.dtype()) ||
      !is_float(rrelu.input->dtype()))
    refuse(call, "floats of the input's shape");
  const std::vector<double> x = elements(*rrelu.input), y = elements(device);
  const DType dtype = device.dtype();
  const double span = rrelu.upper - rrelu.lower;
  Places places;
  std::vector<float> centred(x.size());
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto i = static_cast<std::int64_t>(k);
    if (!std::isfinite(x[k])) continue;
    const double slope = x[k] < 0 ? y[k] / x[k] : 1;
    // The slope was rounded, and the product.
    const double wide = x[k] < 0 ? spacing(dtype, y[k]) / -x[k] +
                                       2 * unit_roundoff(dtype) *
                                           std::max(std::abs(rrelu.upper), span)
                                 : 0;
    const bool good =
        x[k] >= 0 ? y[k] == x[k]
                  : slope >= rrelu.lower - wide && slope <= rrelu.upper + wide;
    findings.require(good, "slope",
                     fmt::format("{:.9g} at {} of {:.9g}, expected a slope in "
                                 "[{}, {}]",
                                 y[k], i, x[k], rrelu.lower, rrelu.upper),
                     i);
    if (!good) return;
    if (x[k] >= 0 || wide >= 0.25 * span) continue;
    const auto place = [&](double s) {
      return std::clamp((s - rrelu.lower) / span, 0.0, 1.0);
    };
    places.push_back({place(slope - wide), place(slope + wide)});
    centred[k] = static_cast<float>(places.back().middle() - 0.5);
  }
  test_law(findings, places, false);
  test_lags(findings, centred, 1.0 / 12, 0.5, device.shape());
  findings.enough(static_cast<std::int64_t>(places.size()), draws_needed(),
                  "negative elements");
}

}  // namespace assay::precheck
