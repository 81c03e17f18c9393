// Tells a finding of the overflow search with everything a reader needs.
#pragma once

#include <cstddef>

#include "assay/compare/overflow/classify.h"
#include "assay/compare/overflow/overflow.h"

namespace assay {

// The operator of `row`, whose leaf is the row's. `in_full`: with all its
// leaves, the modules around it and its call stack.
OverflowFinding describe_finding(const RankScan& rank, const Comparison& result,
                                 std::uint32_t group, std::size_t row,
                                 OverflowKind kind, bool in_full);

}  // namespace assay
