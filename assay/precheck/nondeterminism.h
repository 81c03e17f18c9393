// Operators of which torch says that on accelerators two runs of the same call
// may differ, in the last bits.
#pragma once

#include <string>

namespace assay::precheck {

// By the lists of torch.use_deterministic_algorithms(), of its notes on
// reproducibility and of scaled_dot_product_attention(): what adds up through
// atomics, or hands gradients to places that come more than once. Prefix,
// overload and the underscores of in-place forms do not matter.
bool may_not_repeat(const std::string& api, bool backward);

}  // namespace assay::precheck
