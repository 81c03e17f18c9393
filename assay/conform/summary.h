// A run as a plain table: a line for each module, then every case that is no
// match, with the command that repeats it alone.
#pragma once

#include <string>

#include "assay/conform/collect.h"
#include "assay/conform/run_result.h"

namespace assay::conform {

std::string summary(const RunResult& run);
std::string summary(const Collected& collected, const std::string& folder);

}  // namespace assay::conform
