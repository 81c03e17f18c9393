// A comparison as the history keeps it.
#pragma once

#include <string>

#include "assay/compare/comparison.h"
#include "assay/report/history/history.h"

namespace assay {

// `began`: utc_time() of its beginning. A name that a rank has several times
// gets "#2", "#3": entries are told apart by name.
HistoryRun history_of(const Comparison& comparison, std::string began);

}  // namespace assay
