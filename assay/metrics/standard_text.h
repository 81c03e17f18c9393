// A standard from text, for whoever holds one that is no file.
#pragma once

#include <memory>
#include <string>

#include "assay/metrics/standard.h"

namespace assay {

// The YAML of one standard, as the files of standards/ have it. `origin` names
// it in messages. Throws Error{kUsage}.
std::shared_ptr<const Standard> parse_standard(const std::string& yaml,
                                               const std::string& origin);

}  // namespace assay
