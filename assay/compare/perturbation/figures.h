// Figures of two runs of one call, and what a standard says of them where one
// run rounds, or both do.
#pragma once

#include "assay/core/tensor.h"
#include "assay/metrics/standard.h"

namespace assay::perturbation {

struct Question {
  OpClass op = OpClass::kUnknown;
  // How many of the two runs may be off by what the standard allows: 1 where
  // the golden is exact, 2 where both round.
  double sides = 1;
  // Times the standard's bound of an element, besides. The largest of millions
  // of errors of one polynomial passes a bound that is sized for one: erf in
  // the tail of gelu by 1.1 in 2^21 elements, on a CPU. Figures of the whole
  // tensor do not grow with it.
  double elements = 1;
  // How far the golden moves by the rounding of its inputs alone, normalised
  // L2: the standard's noise. < 0: not known.
  double noise = -1;
};

// Both tiers of figures, element bounds times `sides`. Shapes must be equal.
// Uses all threads inside large tensors.
ErrorStats measure(const Standard& standard, const TensorView& golden,
                   const TensorView& target, const Question& question);

// The standard's judgement of what measure() gave for the same question. Of
// the whole-tensor figures each side answers for its share: they are divided
// by `sides`, which a note says.
Judgement judge(const Standard& standard, ErrorStats& stats,
                const Question& question);

// The farthest that one of `runs` is from `base`, normalised L2; `flips`: NaN
// or infinities that do not stay where they are, in the run with most.
struct Spread {
  double norm_l2 = 0;
  std::int64_t flips = 0;
};
Spread spread_of(const TensorView& base, const std::vector<TensorView>& runs);

}  // namespace assay::perturbation
