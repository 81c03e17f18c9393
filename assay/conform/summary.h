// What a collection made, for the terminal; runs have conform/report/.
#pragma once

#include <string>

#include "assay/conform/collect.h"

namespace assay::conform {

std::string summary(const Collected& collected, const std::string& folder);

}  // namespace assay::conform
