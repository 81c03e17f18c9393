// When operators of a trace begin and end.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "assay/trace/trace.h"

namespace assay {

// An operator takes its inputs in, or puts its outputs out.
struct OpMoment {
  std::uint32_t op = 0;  // index into Trace::ops
  bool ends = false;
};

// Both moments of every operator that is wanted, in the order of execution: a
// module begins with the first operator inside it and ends after the last,
// whichever a dump lists first.
std::vector<OpMoment> execution_order(
    const Trace& trace, const std::function<bool(std::uint32_t op)>& wanted);

}  // namespace assay
