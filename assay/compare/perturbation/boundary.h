// Indices and masks that change under a perturbation: a decision between
// values that tie within it, or a fault.
#pragma once

#include <cstdint>
#include <vector>

#include "assay/core/tensor.h"

namespace assay::perturbation {

struct Decisions {
  std::int64_t differing = 0;  // elements
  // Those that no run with inputs moved by one roundoff decides otherwise:
  // nothing ties there.
  std::int64_t unexplained = 0;
  std::int64_t first_unexplained = -1;
};

// `expected` against `found`; `base`: the wide call, `runs`: the wide call of
// inputs moved by one unit roundoff of their dtype. All int64, contiguous, of
// one shape: Error{kUsage} otherwise.
Decisions decisions_of(const TensorView& expected, const TensorView& found,
                       const TensorView& base,
                       const std::vector<TensorView>& runs);

}  // namespace assay::perturbation
