// A value in a message.
#pragma once

#include <string>

#include "assay/conform/value.h"

namespace assay::conform {

// Texts in single quotes, anything else as JSON, "nothing" for null pointers;
// shortened.
std::string shown(const Value* value);

// About 80 bytes at most, cut between characters, with "..." after them.
std::string shortened(std::string text);

}  // namespace assay::conform
