// Two snapshots against each other: what differs, what usually breaks first.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/env/snapshot.h"
#include "assay/env/table.h"

namespace assay::env {

struct DiffOptions {
  std::vector<std::string> ignore;  // globs of "section.key": no row
  std::vector<Section> only;        // empty: all
};

// Criteria of reasons, so that reports and tests need not read the texts.
inline constexpr std::string_view kDiffers = "value";
inline constexpr std::string_view kOneSided = "one_side";
inline constexpr std::string_view kNotKnown = "unknown";
inline constexpr std::string_view kNotCollected = "not_collected";
inline constexpr std::string_view kExpected = "expected";

// One row a key, under the name "section.key"; an operator of the comparison
// is a group of the table, in its order, the last one "other". In a group what
// differs comes first, then what is not known.
//
//   match       compare_values() says the same; the fingerprints are equal; an
//               option that is not given has a default that is known and the
//               same
//   mismatch    both have it and it differs; one side alone has a flag, a
//               package, or a variable that the other would have shown
//   incomplete  one side alone has it and what the other ran with is not known;
//               a value that only a running shell knows; a section, or a part
//               of one, that one side could not collect
//   empty       it differs as the table expects of two machines or vendors:
//               shown and counted, no evidence
//
// A section that neither side has collected makes no row. Row::cause is why
// the group breaks trainings. Throws Error{kUsage} for no such section.
Comparison diff_snapshots(const Snapshot& golden, const Snapshot& target,
                          const RankTable& table,
                          const DiffOptions& options = {});

}  // namespace assay::env
