// Whole numbers among the arguments of a call that are places or classes: what
// they have to be for the call to mean anything.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "assay/precheck/inputs.h"

namespace assay::precheck {

// Generated tensors of `inputs` by name, with the records they stem from.
using Generated = std::map<std::string, const Record*>;

// Makes generated whole numbers what the operator needs:
//   class targets   ignore_index where the record's extreme is that, as often
//                   as the recorded mean says if classes are equally frequent
//                   (once at least), and classes everywhere else
//   places that are written to (scatter, index_copy, index_put, put,
//                   __setitem__; where values differ and are not added up)
//                   distinct where the recorded range has room for that
// A function of record and key alone.
void settle_indices(const std::string& api, const Generated& generated,
                    std::uint64_t key, CallInputs& inputs);

// Whether the call writes a place more than once with values of their own:
// which of them stands is not defined, torch says so of all these operators.
bool writes_twice(const std::string& api, const CallInputs& inputs);

}  // namespace assay::precheck
