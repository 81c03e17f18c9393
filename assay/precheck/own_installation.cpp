#include "assay/precheck/own_installation.h"

#include <fmt/format.h>

#include "assay/base/text.h"

namespace assay::precheck {
namespace {

bool no_further_off(const ErrorStats& device, const ErrorStats& own,
                    OpClass op) {
  return op != OpClass::kMovement && is_float(device.judged_dtype) &&
         device.nonfinite_mismatches == 0 && own.nonfinite_mismatches == 0 &&
         device.norm_l2 <= own.norm_l2 && device.max_abs <= own.max_abs;
}

Row judge(const Standard& standard, PairTask task, const Tensor* golden,
          const Tensor* device) {
  task.golden = golden;
  task.device = device;
  task.moved = nullptr;
  return judge_pair(standard, task).row;
}

void leave_open(const Row& own, Row& row) {
  row.verdict = Verdict::kIncomplete;
  row.origin = Origin::kNone;
  row.cause.clear();
  for (Reason& reason : row.reasons) reason.note = true;
  row.reasons.insert(
      row.reasons.begin(),
      {"no_yardstick",
       fmt::format("the golden's own installation, in the given precision, "
                   "leaves the standard as far (normalised L2 {}, the "
                   "device's {}): no yardstick",
                   format_figure(own.stats->norm_l2),
                   format_figure(row.stats->norm_l2)),
       0, 0, -1, false});
}

}  // namespace

bool may_hold_to_own(const Row& row) {
  return row.verdict == Verdict::kMismatch && row.stats;
}

void hold_to_own(const Standard& standard, const PairTask& task,
                 const Tensor& own, Row& row) {
  if (own.dtype() != task.device->dtype() ||
      own.shape() != task.device->shape())
    return;
  const Row of_own = judge(standard, task, task.golden, &own);
  if (!may_hold_to_own(of_own)) return;
  if (no_further_off(*row.stats, *of_own.stats, task.op) ||
      judge(standard, task, &own, task.device).verdict != Verdict::kMismatch)
    leave_open(of_own, row);
}

}  // namespace assay::precheck
