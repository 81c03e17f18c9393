// The result of the overflow search as JSON, for programs.
#pragma once

#include <string>

#include "assay/compare/overflow/overflow.h"

namespace assay {

// One object, as docs/overflow.md lists it.
std::string overflow_json(const OverflowReport& report);

}  // namespace assay
