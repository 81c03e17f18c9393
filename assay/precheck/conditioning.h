// How far the rounding of a call's inputs alone moves its result: what an
// operator that adds up may deviate by without being wrong.
//
// Method: TTrace (perturb the inputs by their unit roundoff, take the movement
// of the reference as the yardstick), with three samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "assay/compare/comparison.h"
#include "assay/core/tensor.h"

namespace assay::precheck {

inline constexpr int kConditioningSeeds = 3;

// Whether the row's verdict may be looked at again: a mismatch of values alone,
// never one of shape, dtype, missing or non-finite elements. In an operator
// that accumulates the movements are those of the inputs' rounding. The
// gradient of an element-wise one is computed from its rounded result, which
// they do not show: there the movement is what the golden's installation gives
// in the given precision. A class that is exact, and results of element-wise
// operators, are never asked.
enum class Yardstick : std::uint8_t { kNone, kInputs, kGivenPrecision };
Yardstick yardstick_of(const Row& row, OpClass op, bool backward);

// `golden` and `moved` in float64: the result, and the results on perturbed
// inputs; `device` as it was judged. Every criterion that failed is asked
// again, each by its own figure:
//   element_bound  |d| <= bound + 4 s for every element over its bound, s the
//                  root mean square of the movements over seeds and over the
//                  8 consecutive elements around it; none where that element
//                  itself did not move
//   norm_l2        norm <= bound + 4 max ||movement|| / ||golden||
//   alpha, bias    off by at most bound + 4 max of the movements' own alpha
//                  and bias: a common factor is not explained by movements
//                  that have none
// Where all are explained the row is a match that says so. Where the movement
// is over a quarter of the golden's norm there is no yardstick: incomplete.
// Else the row stays, with a note on the movement. `bound`: of the element
// test, as the standard has it.
struct Conditioned {
  const TensorView& golden;
  const std::vector<TensorView>& moved;
  const TensorView& device;
  ElementBound bound;
  Yardstick yardstick = Yardstick::kInputs;
};
void judge_conditioning(const Conditioned& pair, Row& row);

}  // namespace assay::precheck
