// Finds and reads the API manifest that a command names.
#pragma once

#include <string>

#include "assay/conform/api/manifest.h"

namespace assay {

inline constexpr const char* kShippedManifest = "nvte-2.20";

// A file, or the name of a shipped manifest: nvte-2.20. Throws Error.
conform::ApiManifest read_manifest(const std::string& name);

}  // namespace assay
