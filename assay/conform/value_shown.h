// A value in a message.
#pragma once

#include <string>

#include "assay/conform/value.h"

namespace assay::conform {

// Texts bare, anything else as JSON, "nothing" for null pointers; at most
// about 80 bytes, without control characters.
std::string shown(const Value* value);

}  // namespace assay::conform
