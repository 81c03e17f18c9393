// Second half of matching: which record of the golden is which of the target.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/match_ops.h"

namespace assay {

// Parallel to Trace::records; -1 where there is no partner.
struct RecordPartners {
  std::vector<std::int32_t> of_golden, of_target;
};

// Inside paired operators by leaf, in order where leaves repeat; record rules
// of the map file win; what is left over on both sides by full name.
RecordPartners match_records(const Trace& golden, const Trace& target,
                             const MapRules& rules, NameTranslator* translator,
                             const OpPartners& ops);

}  // namespace assay
