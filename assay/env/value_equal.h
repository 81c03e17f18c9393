// When two settings are the same: only where that is certain.
#pragma once

#include "assay/env/snapshot.h"

namespace assay::env {

enum class Sameness { kYes, kNo, kUnknown };

// The same text is the same, but for Kind::kUnknown, which is never known to
// be. Beyond that, of switches and hyperparameters alone (versions, paths and
// variables are text): 1e-4 is 0.0001 and 1 is 1.0, as doubles have them, and
// integers by their digits; true is True; a flag that is given is true; lists
// ("0.9 0.95") item by item. 1 is not true, "none" is not null.
Sameness compare_values(Section section, const Value& a, const Value& b);

// As a report shows it.
std::string shown(const Value& value);

}  // namespace assay::env
