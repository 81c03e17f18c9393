// Lays a trace out as a comparison, so that the localisation of `compare`
// finds where what is not finite was born.
#pragma once

#include <string>
#include <vector>

#include "assay/compare/engine.h"
#include "assay/compare/overflow/meaning.h"
#include "assay/compare/overflow/scan.h"

namespace assay {

// Appends a group to `out` as if the trace, pair.golden, had been compared
// with a run in which every value is finite: a value that is not differs
// (kMismatch), one that nothing tells of was not compared (kIncomplete), a
// mask agrees, undefined memory is no evidence (kEmpty). Fills pair.matching;
// the trace keeps its records, its stacks move into the group. `only`: as
// CompareOptions::only.
void lay_out(TracePair& pair, const Scan& scan,
             const std::vector<Meaning>& meanings,
             const std::vector<std::string>& only, Comparison& out);

// The record of pair.golden behind a row of the group.
std::uint32_t record_of(const TracePair& pair, const Comparison& result,
                        std::uint32_t group, std::size_t row);

}  // namespace assay
