// What is not replayed, and why: the one table of the pre-check's exceptions.
#pragma once

#include <cstdint>
#include <string>

#include "assay/precheck/api_call.h"

namespace assay::precheck {

enum class Skip : std::uint8_t {
  kNone,    // it is replayed
  kNoLoss,  // there is nothing that a device could get wrong: an empty row
  kLoss,    // it was not checked: an incomplete row
};

struct SkipRule {
  Skip skip = Skip::kNone;
  std::string why;  // one line, of the kind rather than of the call
};

// By what the API is, then by what the trace has of its arguments: what is
// opaque, unreadable, kept in part, or of an unknown dtype cannot be replayed.
SkipRule skip_rule(const Trace& trace, const ApiCall& call);

// Its results tell the dtype or the device of an argument: the golden, which
// is in float64 and on the CPU, cannot answer, so what was recorded is held
// against the device's.
bool tells_of_dtype(const std::string& api);

}  // namespace assay::precheck
