#include "assay/precheck/conditioning.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/metrics/error_stats.h"
#include "assay/numerics/element.h"
#include "assay/numerics/rounding.h"
#include "assay/numerics/ulp.h"

namespace assay::precheck {
namespace {

// Three samples tell a standard deviation to within a factor; TTrace takes
// 4 ... 10 times the largest.
constexpr double kFactor = 4;
// Of the golden's norm: where input rounding moves it further than that, its
// digits mean nothing.
constexpr double kNoYardstick = 0.25;
constexpr std::int64_t kNeighbours = 8;

// What the movements say of the tensor as a whole: the largest of each.
struct Movement {
  double norm = 0, alpha = 0, bias = 0;
};

Movement movement_of(const Conditioned& pair) {
  Movement most;
  for (const TensorView& moved : pair.moved) {
    const ErrorStats stats = compute_stats(pair.golden, moved);
    if (stats.nonfinite_mismatches > 0) most.norm = INFINITY;
    most.norm = std::max(most.norm, stats.norm_l2);
    most.alpha = std::max(most.alpha, std::fabs(stats.alpha - 1));
    most.bias = std::max(most.bias, std::fabs(stats.bias));
  }
  return most;
}

// Elements over their bound that no movement explains, and the worst of them.
class Elements {
 public:
  explicit Elements(const Conditioned& pair) : pair_(pair) {}

  bool explained() {
    const std::int64_t count = pair_.golden.numel();
    for (std::int64_t begin = 0; begin < count; begin += kNeighbours)
      if (!block_explained(begin, std::min(kNeighbours, count - begin)))
        return false;
    return true;
  }

 private:
  using Block = std::array<double, kNeighbours>;

  static void load(const TensorView& view, std::int64_t begin,
                   std::int64_t count, Block& out) {
    load_as_doubles(view.dtype, view.data, begin, count, out.data());
  }

  bool block_explained(std::int64_t begin, std::int64_t count) {
    Block golden{}, device{}, largest{};
    load(pair_.golden, begin, count, golden);
    load(pair_.device, begin, count, device);
    // What was computed in the given precision is off from the rounded golden.
    if (pair_.yardstick == Yardstick::kGivenPrecision)
      for (double& x : golden)
        x = round_to(pair_.device.dtype, x, Overflow::kSpecial);
    double squares = 0;
    for (const TensorView& view : pair_.moved) {
      Block moved{};
      load(view, begin, count, moved);
      for (std::int64_t i = 0; i < count; ++i) {
        const double step = std::fabs(moved[i] - golden[i]);
        if (!std::isfinite(step)) continue;
        largest[i] = std::max(largest[i], step);
        squares += step * step;
      }
    }
    const auto samples =
        static_cast<double>(count) * static_cast<double>(pair_.moved.size());
    const double allowance = kFactor * std::sqrt(squares / samples);
    for (std::int64_t i = 0; i < count; ++i)
      if (!element_explained(golden[i], device[i],
                             largest[i] > 0 ? allowance : 0))
        return false;
    return true;
  }

  bool element_explained(double golden, double device, double allowance) const {
    const DType dtype = pair_.device.dtype;
    const double expected = round_to(dtype, golden, Overflow::kSpecial);
    // Not both finite: alike, or a mismatch that is not asked about here.
    if (!std::isfinite(expected) || !std::isfinite(device)) return true;
    const ElementBound& b = pair_.bound;
    return std::fabs(device - expected) <=
           b.atol + b.rtol * std::fabs(expected) +
               b.ulps * ulp(dtype, expected) + allowance;
  }

  const Conditioned& pair_;
};

bool explained(const Reason& reason, const Movement& movement,
               const Conditioned& pair) {
  if (reason.criterion == "element_bound") return Elements(pair).explained();
  if (reason.criterion == "norm_l2")
    return reason.figure <= reason.bound + kFactor * movement.norm;
  if (reason.criterion == "alpha")
    return std::fabs(reason.figure - 1) <=
           reason.bound + kFactor * movement.alpha;
  if (reason.criterion == "bias")
    return std::fabs(reason.figure) <= reason.bound + kFactor * movement.bias;
  return false;
}

Reason conditioning(std::string text, double figure, bool note) {
  Reason reason;
  reason.criterion = "conditioning";
  reason.text = std::move(text);
  reason.figure = figure;
  reason.note = note;
  return reason;
}

}  // namespace

Yardstick yardstick_of(const Row& row, OpClass op, bool backward) {
  if (row.verdict != Verdict::kMismatch || !row.stats ||
      row.stats->nonfinite_mismatches > 0 || !is_float(row.stats->judged_dtype))
    return Yardstick::kNone;
  const bool values_alone = std::all_of(
      row.reasons.begin(), row.reasons.end(), [](const Reason& reason) {
        return reason.note || reason.criterion == "element_bound" ||
               reason.criterion == "norm_l2" || reason.criterion == "alpha" ||
               reason.criterion == "bias";
      });
  if (!values_alone) return Yardstick::kNone;
  if (op == OpClass::kReduction || op == OpClass::kGemm ||
      op == OpClass::kUnknown)
    return Yardstick::kInputs;
  return backward && op == OpClass::kElementwise ? Yardstick::kGivenPrecision
                                                 : Yardstick::kNone;
}

void judge_conditioning(const Conditioned& pair, Row& row) {
  const Movement movement = movement_of(pair);
  const std::string moves = fmt::format(
      "{} by normalised L2 {}",
      pair.yardstick == Yardstick::kInputs
          ? "rounding the inputs alone moves the result"
          : "the golden's installation, in the given precision, is off",
      format_figure(movement.norm));
  if (movement.norm > kNoYardstick) {
    row.verdict = Verdict::kIncomplete;
    row.reasons.insert(
        row.reasons.begin(),
        conditioning("ill-conditioned: " + moves + ", no yardstick",
                     movement.norm, false));
    for (std::size_t i = 1; i < row.reasons.size(); ++i)
      row.reasons[i].note = true;
    return;
  }
  const bool all = std::all_of(
      row.reasons.begin(), row.reasons.end(), [&](const Reason& reason) {
        return reason.note || explained(reason, movement, pair);
      });
  if (!all) {
    row.reasons.push_back(conditioning(moves + ": that does not explain it",
                                       movement.norm, true));
    return;
  }
  row.verdict = Verdict::kMatch;
  for (Reason& reason : row.reasons) reason.note = true;
  row.reasons.insert(
      row.reasons.begin(),
      conditioning("explained by conditioning: " + moves, movement.norm, true));
}

}  // namespace assay::precheck
