// What judging one row works on, and how judgements get into it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/row_judge.h"
#include "assay/metrics/judgement.h"

namespace assay {

// The parts of a row's judgement (elements, statistics, values) share one of
// these. conclude() sets the verdict and appends its reasons.
struct RowWork {
  const Standard& standard;
  const RowTask& task;
  Row& row;

  void conclude(Verdict verdict, Reason reason);
  void conclude(Judgement judgement);
  void add(std::vector<Reason> reasons);
  // Puts reasons before those there are, and makes the row a mismatch.
  void overrule(std::vector<Reason> reasons);

  // Shape, dtype and whether there is anything to compare; true when they
  // settle the verdict.
  bool settled_by_contract();
};

// The beginning of a value, which may be a whole dictionary, for a reason.
std::string shown(const std::string& value);

bool has_statistics(const TensorStatistics& stats);

// Whether the dump says what dtype the record has, or left it to its file.
bool has_facts(const Record& record);

}  // namespace assay
