// What is known of every value of one trace.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "assay/compare/overflow/value_state.h"

namespace assay {

struct Scan {
  std::vector<ValueState> values;               // one a record
  std::map<std::uint32_t, std::string> unseen;  // record: why it is not known
};

// Statistics where they suffice, elements where they do not: they are read
// too where an FP8 or FP4 tensor's statistics do not say how much of it is
// saturated or zero. A tensor that cannot be read is unseen, never an error.
// With all threads; `stop` ends it early, what was not reached is unseen.
// `read`: called from any thread with the bytes of every tensor read.
Scan scan_values(Trace& trace, const std::atomic<bool>* stop,
                 const std::function<void(std::int64_t bytes)>& read);

}  // namespace assay
