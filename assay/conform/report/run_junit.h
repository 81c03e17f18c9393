// A conformance run as JUnit XML, for CI systems.
#pragma once

#include <filesystem>

#include "assay/conform/run_result.h"

namespace assay::conform {

// One test suite a module, one test case a case. A mismatch is a <failure> of
// type "mismatch". What was not compared is an <error> whose type is its
// ending ("crashed", "stale", "unsupported", "not_run" ...), never <skipped>:
// CI systems take skipped for green. A case of nothing but empty tensors is
// skipped; a suite or a run in which nothing matched and nothing failed gets
// an error of its own. Replaces `path` only when complete. Throws Error.
void write_run_junit(const RunResult& run, const std::filesystem::path& path);

}  // namespace assay::conform
