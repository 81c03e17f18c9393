#include "assay/compare/summary.h"

namespace assay {
namespace {

void count_origin(const Row& row, Counts& counts) {
  if (row.verdict != Verdict::kMismatch) return;
  switch (row.origin) {
    case Origin::kBorn:
      ++counts.born;
      break;
    case Origin::kInherited:
      ++counts.inherited;
      break;
    case Origin::kInputDiffers:
      ++counts.input_differs;
      break;
    case Origin::kParameterDiffers:
      ++counts.parameter_differs;
      break;
    case Origin::kUndetermined:
      ++counts.undetermined;
      break;
    case Origin::kNone:
      break;
  }
}

void count_verdict(const Row& row, Counts& counts) {
  switch (row.verdict) {
    case Verdict::kMatch:
      ++counts.match;
      break;
    case Verdict::kMismatch:
      ++counts.mismatch;
      break;
    case Verdict::kIncomplete:
      ++counts.incomplete;
      break;
    case Verdict::kEmpty:
      ++counts.empty;
      break;
  }
}

}  // namespace

void summarise(Comparison& result) {
  Counts counts;
  bool any_tensor = false;
  bool tensor_matches = false;
  for (const Row& row : result.rows) {
    count_verdict(row, counts);
    count_origin(row, counts);
    any_tensor = any_tensor || row.is_tensor;
    tensor_matches =
        tensor_matches || (row.is_tensor && row.verdict == Verdict::kMatch);
  }
  result.counts = counts;
  const bool evidence = counts.match > 0 && (tensor_matches || !any_tensor);
  if (counts.mismatch > 0) {
    result.verdict = Verdict::kMismatch;
  } else if (counts.incomplete > 0 || result.interrupted || !evidence) {
    result.verdict = Verdict::kIncomplete;
  } else {
    result.verdict = Verdict::kMatch;
  }
}

}  // namespace assay
