// Keeps what a worker complained of in a case that failed.
#pragma once

#include <filesystem>
#include <string>

#include "assay/conform/cases.h"

namespace assay::conform {

// Writes "<folder>/<module>-<id>.<side>.log" and gives its name; "" where
// there is nothing to write. Throws Error.
std::string keep_log(const std::filesystem::path& folder, const Case& c,
                     const std::string& side, const std::string& text);

}  // namespace assay::conform
