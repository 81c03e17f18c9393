// Which values of a trace are not finite on purpose, and which mean nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/compare/overflow/value_state.h"

namespace assay {

enum class Meaning : std::uint8_t {
  kValue,      // what it says
  kMask,       // -inf put there to be taken away by a softmax
  kUndefined,  // memory that nothing had written, or about to be overwritten
};

// One a record. Of values with -inf and neither NaN nor +inf these are masks:
// - an output of an operator with -inf as a plain argument (masked_fill, full),
//   none of whose inputs is infinite for another reason;
// - a value recognised as one that is a mask, and what an operator makes of
//   masks as long as it holds nothing but -inf besides finite elements;
// - an input, or what came from another rank, that no operator of this rank
//   put out, while nothing was infinite for another reason: only if a softmax
//   or attention of this rank later takes such an input in and puts no -inf
//   out.
// NaN and +inf are never excused. Undefined: is_undefined_memory, the same
// value as an input or handed on by a view, and the first argument of calls
// that overwrite it (copy_, masked_fill_, normal_).
std::vector<Meaning> find_meanings(const Trace& trace,
                                   const std::vector<ValueState>& values);

}  // namespace assay
