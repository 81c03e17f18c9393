// The comparison as JUnit XML, for CI systems.
#pragma once

#include <filesystem>

#include "assay/compare/comparison.h"

namespace assay {

// One test suite per (step, rank), one test case per operator. A mismatch is a
// failure of type "mismatch"; what was not compared is no pass, so incomplete
// is a failure too, of type "incomplete"; an operator with nothing but empty
// tensors is skipped. Replaces `path` only when complete. Throws Error.
void write_junit(const Comparison& comparison,
                 const std::filesystem::path& path);

}  // namespace assay
