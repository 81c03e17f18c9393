// A tensor made from what a trace recorded of one instead of its elements.
#pragma once

#include <cstdint>

#include "assay/core/tensor.h"
#include "assay/trace/trace.h"

namespace assay::precheck {

// A function of record and key alone, the same bytes on every machine.
//
// Of the dtype and shape recorded. Counts of NaN, +inf, -inf and zeros are put
// back exactly, at random places; where the trace has only extremes that are
// not finite there is one of each. Minimum and maximum are reached where there
// are two places for them, and no other element is beyond them. Mean and norm
// are met in expectation by drawing from
//   min + (max - min) (1 + t / sqrt(1 + t^2)) / 2,  t = centre + width * z,
// z standard normal: between the normal distribution (narrow) and two values
// (wide), near the uniform one at a width of 0.7. Integers are rounded to the
// nearest; those whose moments are those of 0 .. n - 1 are a permutation.
// Without any statistics floats are standard normal.
//
// Throws Error{kUnsupported}: integers of which nothing was recorded, for they
// may be indices.
Tensor generate(const Record& record, std::uint64_t key);

// Standard normal, of a floating-point or complex dtype: a gradient that the
// trace does not have. `key` as above.
Tensor generate_unit(DType dtype, const Shape& shape, std::uint64_t key);

}  // namespace assay::precheck
