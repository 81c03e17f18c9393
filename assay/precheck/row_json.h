// Judged rows as JSON, whole: what a journal keeps, so that a report made from
// it is the one that would have been made without.
#pragma once

#include <vector>

#include "assay/conform/value.h"
#include "assay/precheck/judge_pair.h"

namespace assay::precheck {

conform::Value rows_to_json(const std::vector<JudgedRow>& rows);

// Throws Error{kRefused} for what rows_to_json() has not written.
std::vector<JudgedRow> rows_from_json(const conform::Value& value);

}  // namespace assay::precheck
