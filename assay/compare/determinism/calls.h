// The first call in which two runs of one program are not the same program.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "assay/trace/trace.h"

namespace assay {

struct CallDifference {
  std::int64_t op = 0;        // index into first.ops; its size: beyond the end
  std::string first, second;  // names, "" where a run has ended
  std::vector<std::string> stack;  // of the call that there is
};

// Forward calls in their order, by name, enclosing module and line of code
// (several threads run a backward pass: its order means nothing). nullopt
// where both make the same.
std::optional<CallDifference> first_other_call(const Trace& first,
                                               const Trace& second);

}  // namespace assay
