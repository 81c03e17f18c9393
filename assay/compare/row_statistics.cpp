#include "assay/compare/row_statistics.h"

#include <fmt/format.h>

#include <utility>

#include "assay/compare/digest.h"

namespace assay {
namespace {

Judgement judge_statistics(const RowWork& work) {
  const Row& row = work.row;
  return work.standard.judge_statistics(row.golden.stats, row.target.stats,
                                        row.golden.facts, work.task.op);
}

bool both_have_statistics(const Row& row) {
  return has_statistics(row.golden.stats) && has_statistics(row.target.stats);
}

// Integers always; floats that an operator only moves, except bfloat16, which
// dumps of different tool generations hash differently.
bool must_be_bitwise_equal(const RowWork& work) {
  const auto dtype = work.row.golden.facts.dtype;
  if (!dtype) return false;
  if (is_exact(*dtype)) return true;
  return work.task.op == OpClass::kMovement && *dtype != DType::kBF16;
}

Judgement judge_digests(const Row& row) {
  return judge_digest(row.golden.digest, row.target.digest,
                      row.golden.facts.dtype);
}

// Statistics are blind to most elements; a checksum is not. An equal one
// settles the row; a different one does where no rounding is allowed.
void weigh_digest(RowWork& work) {
  Row& row = work.row;
  Judgement digest = judge_digests(row);
  if (digest.verdict == Verdict::kMatch && row.verdict != Verdict::kMismatch) {
    row.evidence = Evidence::kDigest;
    row.reasons.clear();
    return work.conclude(std::move(digest));
  }
  if (digest.verdict == Verdict::kMismatch && must_be_bitwise_equal(work)) {
    return work.overrule(std::move(digest.reasons));
  }
  for (Reason& reason : digest.reasons) reason.note = true;
  work.add(std::move(digest.reasons));
}

// What the dump says of a tensor besides the known statistics: 64-bit
// extremes as exact text, is_nan, placements. Text that differs is a
// mismatch where the numbers of a double cannot tell, else a note.
void compare_attributes(RowWork& work) {
  Row& row = work.row;
  if (row.golden.value == row.target.value) return;
  const auto dtype = row.golden.facts.dtype;
  const bool decides =
      row.evidence == Evidence::kNone || (dtype && is_exact(*dtype));
  Reason reason =
      make_reason("attributes",
                  fmt::format("golden {}, target {}", shown(row.golden.value),
                              shown(row.target.value)),
                  !decides);
  if (decides) {
    work.overrule({std::move(reason)});
  } else {
    row.reasons.push_back(std::move(reason));
  }
}

}  // namespace

void judge_without_elements(RowWork& work) {
  Row& row = work.row;
  const bool digests = !row.golden.digest.empty() && !row.target.digest.empty();
  if (both_have_statistics(row)) {
    row.evidence = Evidence::kStatistics;
    std::vector<Reason> earlier = std::exchange(row.reasons, {});
    work.conclude(judge_statistics(work));
    work.add(std::move(earlier));
    if (digests) weigh_digest(work);
    compare_attributes(work);
  } else if (digests) {
    row.evidence = Evidence::kDigest;
    work.conclude(judge_digests(row));
  } else {
    work.conclude(Verdict::kIncomplete,
                  make_reason("no_evidence",
                              "no evidence: neither tensors nor statistics nor "
                              "checksums on both sides"));
    compare_attributes(work);
  }
}

void escalate(RowWork& work) {
  if (!both_have_statistics(work.row)) return;
  Judgement judgement = judge_statistics(work);
  if (judgement.verdict != Verdict::kMismatch) return;
  for (Reason& reason : work.row.reasons) reason.note = true;
  work.overrule(std::move(judgement.reasons));
  work.row.evidence = Evidence::kStatistics;
}

}  // namespace assay
