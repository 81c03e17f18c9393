// A conformance run with one case of every kind, and one of any size.
#pragma once

#include "assay/conform/report/api_coverage.h"
#include "assay/conform/run_result.h"

namespace assay::conform {

// Three modules: one that matches, one with a numeric mismatch, a crash, a
// stale golden and a refusal, one with names that attack each report.
RunResult run_sample();

// `count` cases in modules of 500, every seventh a mismatch.
RunResult large_run(int count);

// What a code base uses: three names that the sample guards, two that it does
// not.
std::vector<ApiName> scanned_sample();

inline constexpr char kHostile[] =
    "</script><img src=x onerror=alert(1)>\x1b[31m'; DROP TABLE run;--\u2028";

}  // namespace assay::conform
