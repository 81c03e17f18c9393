// One finding of the overflow search in words.
#pragma once

#include <string>

#include "assay/compare/overflow/overflow.h"

namespace assay {

// All escaped: safe to print.

// "born here: its inputs are finite, output.0 is not: 12 +inf of 64 elements".
std::string kind_text(const OverflowFinding& finding);
// "rank 1, Distributed.send.0.forward".
std::string sender_text(const OverflowFinding& finding);
// A leaf without its name: dtype, shape, what is known of its values.
std::string leaf_text(const OverflowLeaf& leaf);
// "12 +inf, 1 NaN of 4,096 elements", "NaN" where only that is known, "" for
// finite ones.
std::string special_text(const ValueState& value);

}  // namespace assay
