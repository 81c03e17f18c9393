// Whether runs were deterministic, as one JSON document.
#pragma once

#include <string>

#include "assay/compare/determinism/determinism.h"

namespace assay {

// docs/json-output.md has the members. Ends with a newline.
std::string determinism_json(const DeterminismReport& report,
                             const std::string& program);

}  // namespace assay
