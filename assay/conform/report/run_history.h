// A conformance run as the history keeps it.
#pragma once

#include "assay/conform/run_result.h"
#include "assay/report/history/history.h"

namespace assay::conform {

// An entry a case, in its module's group; its figure is that of its worst
// check. The sides are implementation and device: versions change from run to
// run.
HistoryRun history_of(const RunResult& run);

}  // namespace assay::conform
