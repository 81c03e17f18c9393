// Runs the Python side and takes the JSON document that it prints.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "assay/conform/value.h"

namespace assay::conform {

// The folder that holds specs/ (python_side.h). Throws Error{kUnreadable}.
std::filesystem::path shared_folder();

// `python -m assay.api ARGUMENTS` in an interpreter of its own: $ASSAY_PYTHON,
// or python3. Modules of the current folder are never imported by it. Throws
// Error{kUnreadable} with the last line of its messages where it fails.
Value call_python_api(const std::vector<std::string>& arguments);

}  // namespace assay::conform
