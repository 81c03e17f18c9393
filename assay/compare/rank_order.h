// Follows mismatches from rank to rank through collectives and sends.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "assay/compare/localise.h"

namespace assay {

// Corrects the origins of what communication calls put out: inherited, if a
// rank that contributed differs; undetermined, if the input of a contributing
// rank was not compared; else born. `findings` are all ranks of one step.
// Calls belong together by process group (or sender and receiver) and their
// order in it.
void find_across_ranks(const std::vector<GroupFindings>& findings,
                       Comparison& result);

// The step's earliest row that is no consequence of another, else its earliest
// mismatch; nullopt when nothing differs. Earliest: fewest dependent
// communication calls before it, then fewest operators since the last of
// them, then the lowest rank.
std::optional<std::size_t> first_mismatch(
    const std::vector<GroupFindings>& findings, const Comparison& result);

}  // namespace assay
