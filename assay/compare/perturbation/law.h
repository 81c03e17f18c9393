// What exchanging two slices of an input does to an output, found out in a
// wide dtype rather than looked up by the operator's name.
#pragma once

#include <cstdint>
#include <string_view>

#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"

namespace assay::perturbation {

enum class Law : std::uint8_t {
  kNone,          // the output changes in another way: nothing can be tested
  kMovesExactly,  // its slices are exchanged too, every bit the same
  kMoves,         // likewise, up to the rounding of sums in another order
  kStays,         // a reduction over the slices: the same up to rounding
};

// `wide`: the output in float64, `exchanged_wide`: the same with its own
// slices exchanged (null where it has no such slices), `wide_of_exchanged`:
// the output of exchanged inputs. The standard's bounds of float64 and `op`
// say what rounding is. An output that an exchange does not change at all, as
// one of equal slices, is kStays.
Law law_of(const Standard& standard, OpClass op, const TensorView& wide,
           const TensorView* exchanged_wide,
           const TensorView& wide_of_exchanged);

}  // namespace assay::perturbation
