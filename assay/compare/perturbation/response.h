// How an output answers to a movement of its inputs, beside the same call in a
// wider dtype.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"

namespace assay::perturbation {

// Four outputs of one operator in fp64, contiguous, of one shape: the call and
// the perturbed call, in the operator's dtype and in the wide one.
struct Answers {
  TensorView original, perturbed, wide, wide_perturbed;
};

// What the perturbed call should have given: original + (wide_perturbed -
// wide). The error that the operator has anyway cancels; what is left is how
// it moves. Throws Error{kUsage} for other dtypes and shapes.
Tensor expected_of(const Answers& answers);

// Elements that must be seen to move, and those of them that do not.
struct Stillness {
  // Where the wide call moves by more than 4 ulp of the operator's dtype: an
  // output within 1 ulp of the truth cannot stay.
  std::int64_t must_move = 0;
  std::int64_t still = 0;  // of those, where the output keeps every bit
  // An output that is stale or constant: more than half of at least 16
  // elements stay. Errors of 2 ulp and more do not agree by chance so often.
  bool stale() const { return must_move >= 16 && 2 * still > must_move; }
};
Stillness stillness_of(const Answers& answers, DType dtype);

}  // namespace assay::perturbation
