// Which calls of one rank exchange data with which other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/localise.h"
#include "assay/compare/op_state.h"

namespace assay {

// The collectives and point-to-point calls of a group in execution order.
// Calls of one process group, or from one rank to another, belong together in
// the order each side makes them.
std::vector<Communication> find_communications(
    const TracePair& pair, const Comparison& result,
    const std::vector<OpState>& states, std::uint32_t group);

}  // namespace assay
