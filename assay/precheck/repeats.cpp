#include "assay/precheck/repeats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "assay/base/text.h"
#include "assay/precheck/random/arguments.h"

namespace assay::precheck {
namespace {

struct Distance {
  std::int64_t count = 0, differ = 0;
  double norm = 0;  // of the difference, over that of the first run
};

Distance distance(const Tensor& first, const Tensor& again) {
  const std::vector<double> a = elements(first), b = elements(again);
  Distance found;
  found.count = static_cast<std::int64_t>(a.size());
  double moved = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ++found.differ;
    moved += (a[i] - b[i]) * (a[i] - b[i]);
  }
  for (const double x : a) all += std::isfinite(x) ? x * x : 0;
  found.norm = all > 0 ? std::sqrt(moved / all) : std::sqrt(moved);
  return found;
}

// The figure and what it is of.
Reason reason_of(const Tensor& first, const Tensor* again) {
  Reason reason{"repeats", "does not repeat: two runs of the call differ",
                0,         0,
                -1,        true};
  if (!again || again->shape() != first.shape()) return reason;
  const Distance found = distance(first, *again);
  reason.figure = found.norm;
  reason.text += fmt::format(" in {} of {} elements, by normalised L2 {:.3g}",
                             human_count(found.differ),
                             human_count(found.count), found.norm);
  return reason;
}

bool has(const Row& row, std::string_view criterion) {
  return std::any_of(row.reasons.begin(), row.reasons.end(),
                     [&](const Reason& r) { return r.criterion == criterion; });
}

}  // namespace

void judge_repeats(const Standard& standard, const PairTask& task,
                   const Tensor* again, bool may_differ, JudgedRow& judged) {
  Reason reason = reason_of(*task.device, again);
  Row& row = judged.row;
  const bool settled = row.verdict == Verdict::kMismatch || has(row, "ties");
  const bool exact =
      task.op == OpClass::kMovement || is_exact(task.device->dtype());
  if (!settled && (exact || !may_differ)) {
    row.verdict = Verdict::kMismatch;
    row.origin = Origin::kBorn;
    for (Reason& each : row.reasons) each.note = true;
    reason.note = false;
    if (!exact)
      reason.text += "; torch names no such operator that may not repeat";
    row.reasons.insert(row.reasons.begin(), std::move(reason));
    return;
  }
  if (again && row.verdict == Verdict::kMatch && !settled) {
    PairTask other = task;
    other.device = again;
    JudgedRow second = judge_pair(standard, other);
    second.backward = judged.backward;
    if (second.row.verdict == Verdict::kMismatch) judged = std::move(second);
  }
  judged.row.reasons.push_back(std::move(reason));
}

}  // namespace assay::precheck
