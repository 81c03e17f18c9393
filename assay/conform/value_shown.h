// A value in a message.
#pragma once

#include <string>
#include <string_view>

#include "assay/conform/value.h"

namespace assay::conform {

// Texts in single quotes, anything else as JSON, "nothing" for null pointers;
// shortened.
std::string shown(const Value* value);

// About 80 bytes at most, cut between characters, with "..." after them.
std::string shortened(std::string text);

// A message of someone else's, UTF-8, as one line: every run of control
// characters and blanks becomes one blank. Quotes stay as they are.
std::string one_line(std::string_view text);

}  // namespace assay::conform
